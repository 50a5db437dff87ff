// SPDX-License-Identifier: GPL-2.0
/*
 * klog(), klog_printk() and their handlers, without a relay channel.
 */
#include "common.h"
#include "harness.h"

FIXTURE(klog) { int none; };

FIXTURE_SETUP(klog)
{
	log_case("klog", _metadata->name);
	ctl("unregister");
	ctl("reset");
}

FIXTURE_TEARDOWN(klog)
{
	ctl("stormend");
	ctl("unregister");
}

static const char * const contexts[] = { "process", "softirq", "irq", "NMI" };

static bool have(unsigned int context)
{
	return context != KST_NMI || info("nmi") == 1;
}

TEST_F(klog, without_a_handler_nothing_happens)
{
	long long missed = info("missed");

	for (unsigned int context = 0; context < KST_CONTEXTS; context++) {
		if (!have(context))
			continue;
		CTL("log ctx=%u len=100 count=10", context);
		CTL("print ctx=%u text=1", context);
	}
	EXPECT_EQ(missed, info("missed"));
	EXPECT_EQ(10, info("logged.0.0"));
	EXPECT_EQ(0, info("a.count"));
}

TEST_F(klog, null_operations_are_refused)
{
	CTL("register which=last");
	EXPECT_EQ(-EINVAL, ctl("register which=null"));
	/* and the current handler stays */
	CTL("log len=32");
	EXPECT_EQ(1, info("a.count"));
}

TEST_F(klog, a_handler_without_klog_does_nothing)
{
	CTL("register which=last");
	CTL("register which=noop");
	CTL("log len=32");
	CTL("print text=0");
	EXPECT_EQ(0, info("a.count"));
	CTL("unregister");
}

TEST_F(klog, every_byte_arrives_from_every_context)
{
	static const unsigned int lens[] = { 16, 17, 100, 1024, 4095, KST_MAX };
	uint8_t data[KST_MAX];

	CTL("register which=last");
	for (unsigned int context = 0; context < KST_CONTEXTS; context++) {
		if (!have(context)) {
			TH_LOG("no %s here", contexts[context]);
			continue;
		}
		for (unsigned int cpu = 0; cpu < online_cpus(); cpu++) {
			for (unsigned int i = 0; i < ARRAY_SIZE(lens); i++) {
				struct kst_head head;

				CTL("log cpu=%u ctx=%u len=%u", cpu, context, lens[i]);
				ASSERT_EQ((ssize_t)lens[i], last_message(data, sizeof(data)));
				memcpy(&head, data, sizeof(head));
				ASSERT_TRUE(kst_head_good(&head, lens[i]));
				ASSERT_EQ(cpu, head.cpu);
				ASSERT_EQ(context, head.context);
				ASSERT_EQ(i, head.seq);
				ASSERT_TRUE(kst_good(&head, data));
			}
		}
	}
	EXPECT_TRUE(state("a.torn=0 a.irqs_on=0"));
}

TEST_F(klog, no_bytes_are_no_message)
{
	CTL("register which=last");
	CTL("nothing");
	EXPECT_TRUE(state("a.count=0 len=-1"));
}

TEST_F(klog, text_is_formatted_and_cut)
{
	static char want[6000], got[KST_MAX];

	CTL("register which=last");
	for (unsigned int context = 0; context < KST_CONTEXTS; context++) {
		if (!have(context))
			continue;
#define TEXT(n, ...) {								\
		int len = snprintf(want, sizeof(want), __VA_ARGS__);		\
		long long before = info("a.count");				\
										\
		if (len > 1023)							\
			len = 1023;						\
		CTL("print ctx=%u text=%u", context, n);			\
		/* an empty text is no message */				\
		ASSERT_EQ(before + (len > 0), info("a.count"));			\
		if (len) {							\
			ASSERT_EQ((ssize_t)len, last_message(got, sizeof(got)));\
			ASSERT_EQ(0, memcmp(want, got, len));			\
		}								\
	}
#include "module/texts.h"
	}
}

TEST_F(klog, the_last_registered_is_current)
{
	CTL("register which=a");
	CTL("register which=b");
	CTL("log count=3");
	EXPECT_TRUE(state("a.count=0 b.count=3"));
	CTL("register which=a");
	CTL("log count=2");
	EXPECT_TRUE(state("a.count=2 b.count=3"));
	/* Regardless of the client that registered it. */
	CTL("unregister");
	CTL("log count=5");
	EXPECT_TRUE(state("a.count=2 b.count=3"));
	CTL("unregister");
}

TEST_F(klog, a_handler_is_not_entered_twice)
{
	long long missed = info("missed"), nmi = info("nmi");

	CTL("register which=nesting");
	for (int i = 0; i < 20; i++) {
		for (unsigned int context = 0; context < KST_NMI; context++)
			CTL("log cpu=%u ctx=%u", i % online_cpus(), context);
		CTL("print text=1");
	}
	CTL("unregister");
	EXPECT_EQ(80, info("a.count"));
	EXPECT_EQ(0, info("a.again"));
	/* two of its own, and two of the NMI's */
	EXPECT_EQ(missed + 80 * (nmi ? 4 : 2), info("missed"));
	EXPECT_EQ(0, info("a.torn"));
}

static long long logged(void)
{
	long long sum = 0;

	for (unsigned int cpu = 0; cpu < online_cpus(); cpu++)
		for (unsigned int context = 0; context < KST_CONTEXTS; context++)
			sum += info("logged.%u.%u", cpu, context);
	return sum;
}

TEST_F(klog, all_contexts_on_all_cpus_at_once)
{
	long long missed = info("missed");

	CTL("register which=a");
	CTL("storm n=%u nmi=1", storm_rounds(100000));
	CTL("stormwait");
	TH_LOG("%lld messages, %lld of them missed", logged(), info("missed") - missed);
	for (unsigned int context = 0; context < KST_CONTEXTS; context++)
		if (have(context))
			EXPECT_GT(info("logged.0.%u", context), 0);
	EXPECT_EQ(logged(), info("a.count") + info("missed") - missed);
	EXPECT_TRUE(state("a.torn=0 a.again=0 a.irqs_on=0"));
}

TEST_F_TIMEOUT(klog, handlers_come_and_go_under_load, 200)
{
	CTL("storm n=4000000000 nmi=1");
	CTL("churn n=%u", storm_rounds(30));
	TH_LOG("%lld and %lld messages to two handlers", info("a.count"), info("b.count"));
	EXPECT_EQ(0, info("a.late"));
	EXPECT_EQ(0, info("b.late"));
	EXPECT_EQ(0, info("a.torn") + info("b.torn"));
	CTL("stormend");
}

static void *churn(void *unused)
{
	for (unsigned int i = 0; i < storm_rounds(15); i++) {
		ctl("register which=%c", "ab"[i % 2]);
		ctl("unregister");
	}
	return NULL;
}

TEST_F_TIMEOUT(klog, registering_races_with_itself, 200)
{
	pthread_t thread[4];

	CTL("storm n=4000000000 nmi=1");
	for (int i = 0; i < 4; i++)
		ASSERT_EQ(0, pthread_create(&thread[i], NULL, churn, NULL));
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	CTL("unregister");
	long long count = info("a.count") + info("b.count");

	usleep(100000);
	EXPECT_EQ(count, info("a.count") + info("b.count"));
	CTL("stormend");
}

TEST_F_TIMEOUT(klog, the_handlers_module_goes_under_load, 200)
{
	CTL("unregister");
	ASSERT_EQ(0, module_unload("klog_relay"));
	CTL("storm n=4000000000 nmi=1");
	for (unsigned int i = 0; i < storm_rounds(12); i++) {
		ASSERT_EQ(0, module_load("KLOG_RELAY_KO"));
		ASSERT_EQ(0, start("klog", 4096, 4, i % 2 ? "overwrite" : "no-overwrite"));
		usleep(i % 5 * 1000);
		ASSERT_EQ(0, module_unload("klog_relay"));
	}
	CTL("stormend");
	ASSERT_EQ(0, module_load("KLOG_RELAY_KO"));
}

TEST_HARNESS_MAIN
