// SPDX-License-Identifier: GPL-2.0
/*
 * klog's handler: the controls of the relay application, and the data that a reader of its channel
 * reads.
 */
#include "common.h"
#include "harness.h"

#define SUBBUF	4096
#define HEAD	(sizeof(size_t))
#define APP	"klog"

FIXTURE(app) { int none; };

FIXTURE_SETUP(app)
{
	log_case("app", _metadata->name);
	ctl("unregister");
	ctl("reset");
	/* so that the controls are as at first */
	module_unload("klog_relay");
	ASSERT_EQ(0, module_load("KLOG_RELAY_KO"));
}

FIXTURE_TEARDOWN(app)
{
	ctl("stormend");
	control(APP, "enabled", "0");
	control(APP, "create", "0");
}

/* A channel and its reader, with three messages in it. */
static bool takes(struct reader *r)
{
	return !start(APP, SUBBUF, 4, "no-overwrite") && !reader_open(r, APP, 0, SUBBUF, 4) &&
	       !ctl("log len=100 count=3");
}

/* The channel and its messages are still there, and three more follow. The reader is closed. */
static bool still_takes(struct reader *r)
{
	struct bytes b = {};
	bool ok = control_value(APP, "create") == 1 && control_value(APP, "enabled") == 1 &&
		  !ctl("log len=100 count=3") && !control(APP, "enabled", "0") &&
		  reader_take(r, &b) && b.len == 600;

	bytes_free(&b);
	reader_close(r);
	return ok;
}

/* Returns the result of creating a channel with sub-buffers of 1 GiB each. */
static int create_huge(const char *n_subbufs)
{
	return control(APP, "subbuf_size", "1073741824") ?: control(APP, "n_subbufs", n_subbufs) ?:
	       control(APP, "create", "1");
}

/* The current channel stays, with its data, until the new one has its memory. */
TEST_F(app, a_channel_for_which_there_is_no_memory)
{
	struct reader r;

	/* the C engine has other tasks killed before it gives up */
	if (getenv("KLOG_C_ENGINE"))
		SKIP(return, "needs an engine that stops in time");
	ASSERT_TRUE(takes(&r));
	EXPECT_EQ(-ENOMEM, create_huge("3"));
	EXPECT_TRUE(still_takes(&r));
	/* the next one has the names of this one */
	ASSERT_EQ(0, start(APP, SUBBUF, 4, "no-overwrite"));
	EXPECT_EQ(-ENOENT, open_in(APP, ".cpu0", O_RDONLY));
	EXPECT_EQ(0, control_value(APP, "dropped"));
	ASSERT_EQ(0, reader_open(&r, APP, 0, SUBBUF, 4));
	reader_close(&r);
}

TEST_F(app, what_it_begins_with)
{
	EXPECT_EQ(262144, control_value(APP, "subbuf_size"));
	EXPECT_EQ(4, control_value(APP, "n_subbufs"));
	EXPECT_EQ(0, control_value(APP, "create"));
	EXPECT_EQ(0, control_value(APP, "enabled"));
	EXPECT_EQ(0, control_value(APP, "dropped"));
	EXPECT_EQ(-ENOENT, open_in(APP, "cpu0", O_RDONLY));
	/* No handler takes it, and no counter counts it. */
	CTL("log count=10");
	EXPECT_EQ(0, control_value(APP, "dropped"));
}

/*
 * While it is not enabled it has no handler: another one stays, and messages cost nothing without
 * it.
 */
TEST_F(app, its_handler_is_registered_while_it_is_enabled)
{
	struct bytes b = {};
	struct reader r;
	char mark[64];

	snprintf(mark, sizeof(mark), "other %d", getpid());
	log_case("app", mark);
	CTL("register which=a");
	/* its own takes no other's place */
	EXPECT_EQ(-EBUSY, start(APP, SUBBUF, 4, "no-overwrite"));
	EXPECT_EQ(0, control_value(APP, "enabled"));
	EXPECT_EQ(1, log_lines(mark, "klog: another handler is registered: klog_a [klog_selftest]"));
	CTL("log len=100 count=2");
	EXPECT_TRUE(state("a.count=2"));
	CTL("unregister");

	ASSERT_EQ(0, control(APP, "enabled", "1"));
	ASSERT_EQ(0, control(APP, "enabled", "1"));
	ASSERT_EQ(0, reader_open(&r, APP, 0, SUBBUF, 4));
	CTL("log len=100 count=3");
	ASSERT_EQ(0, control(APP, "enabled", "0"));
	EXPECT_TRUE(reader_take(&r, &b));
	EXPECT_EQ(300, b.len);
	/* each of these takes it away */
	for (unsigned int i = 0; i < 3; i++) {
		EXPECT_EQ(0, info("active"));
		ASSERT_EQ(0, start(APP, SUBBUF, 4, "no-overwrite"));
		EXPECT_EQ(1, info("active"));
		ASSERT_EQ(0, i ? control(APP, "create", i == 1 ? "1" : "0") : control(APP, "enabled", "0"));
	}
	EXPECT_EQ(0, info("active"));
	bytes_free(&b);
	reader_close(&r);
}

/* A text that no handler gets is not formatted. */
TEST_F(app, costs_nothing_while_it_is_not_enabled)
{
	long long with, without;

	ASSERT_EQ(0, control(APP, "create", "1"));
	CTL("cost");
	with = info("cost");
	ASSERT_EQ(0, module_unload("klog_relay"));
	CTL("cost");
	without = info("cost");
	TH_LOG("100 texts: %lld ns, without klog_relay %lld ns", with, without);
	EXPECT_LE(with, 3 * without);
	ASSERT_EQ(0, module_load("KLOG_RELAY_KO"));
}

TEST_F(app, bad_sizes_are_refused)
{
	static const struct {
		const char *text;
		int subbuf_size, n_subbufs;
	} bad[] = {
		{ "0", -EINVAL, -EINVAL },
		{ "", -EINVAL, -EINVAL },
		{ "\n", -EINVAL, -EINVAL },
		{ "-1", -EINVAL, -EINVAL },
		{ "+1", -EINVAL, -EINVAL },
		{ "0x1000", -EINVAL, -EINVAL },
		{ "4096k", -EINVAL, -EINVAL },
		{ "40 96", -EINVAL, -EINVAL },
		{ "many", -EINVAL, -EINVAL },
		{ "15", -ERANGE, 0 },
		{ "1048577", 0, -ERANGE },
		{ "1073741825", -ERANGE, -ERANGE },
		{ "4294967296", -ERANGE, -ERANGE },
		{ "18446744073709551616", -ERANGE, -ERANGE },
		{ "99999999999999999999999999999", -ERANGE, -ERANGE },
		{ "00000000000000000000000000000000000001", -EINVAL, -EINVAL },
	};

	for (unsigned int i = 0; i < ARRAY_SIZE(bad); i++) {
		ASSERT_EQ(0, control(APP, "subbuf_size", "8192\n"));
		ASSERT_EQ(0, control(APP, "n_subbufs", "7"));
		EXPECT_EQ(bad[i].subbuf_size, control(APP, "subbuf_size", bad[i].text)) {
			TH_LOG("\"%s\"", bad[i].text);
		}
		EXPECT_EQ(bad[i].n_subbufs, control(APP, "n_subbufs", bad[i].text)) {
			TH_LOG("\"%s\"", bad[i].text);
		}
		if (bad[i].subbuf_size)
			EXPECT_EQ(8192, control_value(APP, "subbuf_size"));
		if (bad[i].n_subbufs)
			EXPECT_EQ(7, control_value(APP, "n_subbufs"));
	}
}

TEST_F(app, bad_commands_change_nothing)
{
	struct reader r;

	EXPECT_EQ(-ENODEV, control(APP, "enabled", "1"));
	EXPECT_EQ(0, control(APP, "enabled", "0"));
	ASSERT_TRUE(takes(&r));
	EXPECT_EQ(-EINVAL, control(APP, "create", "2"));
	EXPECT_EQ(-EINVAL, control(APP, "create", "-1"));
	EXPECT_EQ(-EINVAL, control(APP, "create", "10000000"));
	EXPECT_EQ(-EINVAL, control(APP, "enabled", "2"));
	EXPECT_EQ(-EINVAL, control(APP, "enabled", "x"));
	EXPECT_EQ(-EINVAL, control(APP, "mode", "over"));
	EXPECT_EQ(-EINVAL, control(APP, "mode", "a mode that is much too long"));
	EXPECT_EQ(-E2BIG, create_huge("1048576"));
	EXPECT_TRUE(still_takes(&r));
}

TEST_F(app, consumed_is_checked)
{
	struct reader r;
	size_t two[2] = { 1, 1 };
	void *nowhere;
	int fd;

	ASSERT_EQ(0, start(APP, SUBBUF, 4, "no-overwrite"));
	ASSERT_EQ(0, reader_open(&r, APP, 0, SUBBUF, 4));
	/* two finished, one begun */
	CTL("log len=4000 count=3");
	EXPECT_EQ(2, reader_produced(&r));
	EXPECT_EQ(-EINVAL, reader_consume(&r, 3));
	EXPECT_EQ(-EINVAL, reader_consume(&r, SIZE_MAX));
	EXPECT_EQ(0, reader_consume(&r, 0));
	fd = open_in(APP, "cpu0.consumed", O_WRONLY);
	ASSERT_GE(fd, 0);
	for (size_t len = 1; len <= sizeof(two); len++) {
		if (len == sizeof(size_t))
			continue;
		EXPECT_EQ(-1, write(fd, two, len));
		EXPECT_EQ(EINVAL, errno);
	}
	nowhere = mmap(NULL, SUBBUF, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, nowhere);
	EXPECT_EQ(-1, write(fd, nowhere, sizeof(size_t)));
	EXPECT_EQ(EFAULT, errno);
	munmap(nowhere, SUBBUF);
	close(fd);
	EXPECT_EQ(0, reader_consumed(&r));
	EXPECT_EQ(0, reader_consume(&r, 1));
	EXPECT_EQ(-EINVAL, reader_consume(&r, 2));
	EXPECT_EQ(0, reader_consume(&r, 1));
	EXPECT_EQ(2, reader_consumed(&r));
	EXPECT_EQ(2, reader_produced(&r));
	reader_close(&r);
}

/* Checks all messages in @b; how many there are, or -1. */
static long long check(struct __test_metadata *_metadata, const struct bytes *b,
		       unsigned int cpu, uint32_t next[KST_CONTEXTS], bool gaps)
{
	long long messages = 0;

	for (size_t at = 0; at < b->len; messages++) {
		struct kst_head head;

		if (b->len - at < sizeof(head))
			return -1;
		memcpy(&head, b->data + at, sizeof(head));
		if (!kst_head_good(&head, b->len - at) || !kst_good(&head, b->data + at) ||
		    head.cpu != cpu || head.seq < next[head.context] ||
		    (!gaps && head.seq != next[head.context])) {
			TH_LOG("cpu %u: bad message %lld at %zu of %zu: seq %u ctx %u len %u, expected seq %u",
			       cpu, messages, at, b->len, head.seq, head.context, head.len,
			       next[head.context]);
			return -1;
		}
		next[head.context] = head.seq + 1;
		at += head.len;
	}
	return messages;
}

TEST_F(app, every_byte_by_mmap)
{
	for (unsigned int cpu = 0; cpu < online_cpus(); cpu++) {
		for (unsigned int context = 0; context < KST_CONTEXTS; context++) {
			uint32_t next[KST_CONTEXTS] = {};
			struct bytes b = {};
			struct reader r;

			if (context == KST_NMI && !info("nmi"))
				continue;
			CTL("reset");
			ASSERT_EQ(0, start(APP, SUBBUF, 8, "no-overwrite"));
			ASSERT_EQ(0, reader_open(&r, APP, cpu, SUBBUF, 8));
			/* 61 each in 4088 bytes */
			CTL("log cpu=%u ctx=%u len=67 count=300", cpu, context);
			ASSERT_EQ(300 / 61, reader_produced(&r));
			ASSERT_TRUE(reader_take(&r, &b));
			ASSERT_EQ(0, control(APP, "enabled", "0"));
			ASSERT_TRUE(reader_take(&r, &b));
			ASSERT_EQ(300, check(_metadata, &b, cpu, next, false));
			ASSERT_EQ(0, control_value(APP, "dropped"));
			bytes_free(&b);
			reader_close(&r);
		}
	}
}

TEST_F(app, every_byte_by_read)
{
	uint32_t next[KST_CONTEXTS] = {};
	struct bytes b = {};

	ASSERT_EQ(0, start(APP, SUBBUF, 64, "no-overwrite"));
	CTL("log len=67 count=1000");
	ASSERT_EQ(0, control(APP, "enabled", "0"));
	/* of a length that is no part of anything */
	ASSERT_TRUE(read_data(APP, SUBBUF, 1001, &b));
	EXPECT_EQ(1000, check(_metadata, &b, 0, next, false));
	bytes_free(&b);
}

TEST_F(app, the_largest_message)
{
	struct bytes b = {};
	struct reader r;

	ASSERT_EQ(0, start(APP, SUBBUF, 4, "no-overwrite"));
	ASSERT_EQ(0, reader_open(&r, APP, 0, SUBBUF, 4));
	/* these take no room from others */
	CTL("log len=%zu count=5", SUBBUF - HEAD + 1);
	CTL("log len=%u count=5", SUBBUF);
	CTL("log len=%u count=5", SUBBUF + 1);
	CTL("log len=%u count=5", 8192);
	EXPECT_EQ(20, control_value(APP, "dropped"));
	EXPECT_EQ(0, reader_produced(&r));
	CTL("log len=%zu count=2", SUBBUF - HEAD);
	ASSERT_EQ(0, control(APP, "enabled", "0"));
	EXPECT_EQ(20, control_value(APP, "dropped"));
	EXPECT_TRUE(reader_take(&r, &b));
	EXPECT_EQ(2 * (SUBBUF - HEAD), b.len);
	bytes_free(&b);
	reader_close(&r);
}

TEST_F(app, full_buffers_drop_and_say_so_once)
{
	uint32_t next[KST_CONTEXTS] = {};
	struct bytes b = {};
	struct reader r;
	char mark[64];

	snprintf(mark, sizeof(mark), "full %d", getpid());
	log_case("app", mark);
	ASSERT_EQ(0, start(APP, SUBBUF, 4, "no-overwrite"));
	ASSERT_EQ(0, reader_open(&r, APP, 0, SUBBUF, 4));
	for (int i = 0; i < 3; i++) {
		/* 4 of each sub-buffer: 16 find room, of the first batch */
		CTL("log len=1000 count=20");
		EXPECT_EQ(4, reader_produced(&r) - reader_consumed(&r));
		EXPECT_EQ(i * 4 + 4, control_value(APP, "dropped"));
		EXPECT_TRUE(reader_take(&r, &b));
	}
	EXPECT_EQ(48, check(_metadata, &b, 0, next, true));
	EXPECT_EQ(1, log_lines(mark, "klog: cpu 0 buffer full"));
	if (online_cpus() > 1) {
		CTL("log cpu=1 len=1000 count=20");
		EXPECT_EQ(1, log_lines(mark, "klog: cpu 1 buffer full"));
		EXPECT_EQ(16, control_value(APP, "dropped"));
	}
	/* A new channel starts from 0. */
	ASSERT_EQ(0, control(APP, "create", "1"));
	EXPECT_EQ(0, control_value(APP, "enabled"));
	EXPECT_EQ(0, control_value(APP, "dropped"));
	ASSERT_EQ(0, control(APP, "enabled", "1"));
	CTL("log len=1000 count=20");
	EXPECT_EQ(4, control_value(APP, "dropped"));
	EXPECT_EQ(2, log_lines(mark, "klog: cpu 0 buffer full"));
	bytes_free(&b);
	reader_close(&r);
}

TEST_F(app, overwriting_keeps_the_newest)
{
	struct kst_head head;
	struct reader r;

	ASSERT_EQ(0, start(APP, SUBBUF, 4, "overwrite"));
	ASSERT_EQ(0, reader_open(&r, APP, 0, SUBBUF, 4));
	CTL("log len=1000 count=402");
	EXPECT_EQ(0, control_value(APP, "dropped"));
	EXPECT_EQ(100, reader_produced(&r));
	/* 400 and 401 are in the first slot, 396 to 399 in the last */
	for (int i = 0; i < 2; i++) {
		memcpy(&head, r.map + HEAD + i * 1000, sizeof(head));
		EXPECT_EQ(400 + i, head.seq);
	}
	for (int i = 0; i < 4; i++) {
		size_t padding;

		memcpy(&head, r.map + 3 * SUBBUF + HEAD + i * 1000, sizeof(head));
		EXPECT_EQ(396 + i, head.seq);
		memcpy(&padding, r.map + 3 * SUBBUF, sizeof(padding));
		EXPECT_EQ(SUBBUF - HEAD - 4000, padding);
	}
	reader_close(&r);
}

TEST_F(app, disabling_finishes_every_buffer)
{
	struct reader r;

	ASSERT_EQ(0, start(APP, SUBBUF, 4, "no-overwrite"));
	for (unsigned int cpu = 0; cpu < online_cpus(); cpu++)
		CTL("log cpu=%u len=100", cpu);
	ASSERT_EQ(0, control(APP, "enabled", "0"));
	CTL("log len=100");
	for (unsigned int cpu = 0; cpu < online_cpus(); cpu++) {
		struct pollfd pfd = { .events = POLLIN };
		struct bytes b = {};

		ASSERT_EQ(0, reader_open(&r, APP, cpu, SUBBUF, 4));
		EXPECT_EQ(1, reader_produced(&r));
		pfd.fd = r.fd;
		EXPECT_EQ(1, poll(&pfd, 1, 0));
		EXPECT_TRUE(reader_take(&r, &b));
		EXPECT_EQ(100, b.len);
		bytes_free(&b);
		reader_close(&r);
	}
	/* Messages logged while it was disabled are missing, and do not count as lost. */
	EXPECT_EQ(0, control_value(APP, "dropped"));
}

/* In overwrite mode more may be finished than the buffer has. */
TEST_F(app, more_than_a_buffer_is_consumed)
{
	struct reader r;

	ASSERT_EQ(0, start(APP, SUBBUF, 4, "overwrite"));
	ASSERT_EQ(0, reader_open(&r, APP, 0, SUBBUF, 4));
	CTL("log len=4000 count=12");
	EXPECT_EQ(11, reader_produced(&r));
	EXPECT_EQ(-EINVAL, reader_consume(&r, 12));
	EXPECT_EQ(0, reader_consumed(&r));
	EXPECT_EQ(0, reader_consume(&r, 10));
	EXPECT_EQ(10, reader_consumed(&r));
	EXPECT_EQ(0, reader_consume(&r, 1));
	EXPECT_EQ(11, reader_consumed(&r));
	reader_close(&r);
}

TEST_F(app, who_has_an_old_channel_keeps_it)
{
	uint32_t next[KST_CONTEXTS] = {};
	struct bytes b = {};
	struct reader old, new;
	static uint8_t data[4 * SUBBUF];
	size_t padding;
	ssize_t len;

	ASSERT_EQ(0, start(APP, SUBBUF, 4, "no-overwrite"));
	ASSERT_EQ(0, reader_open(&old, APP, 0, SUBBUF, 4));
	CTL("log len=200 count=30");
	ASSERT_EQ(0, control(APP, "enabled", "0"));

	ASSERT_EQ(0, start(APP, 2 * SUBBUF, 2, "no-overwrite"));
	ASSERT_EQ(0, reader_open(&new, APP, 0, 2 * SUBBUF, 2));
	CTL("log len=200 count=7");
	ASSERT_EQ(0, control(APP, "create", "0"));
	EXPECT_EQ(-ENOENT, open_in(APP, "cpu0", O_RDONLY));
	EXPECT_EQ(-ENOENT, reader_produced(&new));
	ASSERT_EQ(0, module_unload("klog_relay"));

	/* 20 messages in 4088 bytes; the mapping and read() agree */
	memcpy(&padding, old.map, sizeof(padding));
	ASSERT_EQ(SUBBUF - HEAD - 4000, padding);
	bytes_add(&b, old.map + HEAD, 4000);
	EXPECT_EQ(20, check(_metadata, &b, 0, next, false));
	len = read(old.fd, data, sizeof(data));
	/* and the header of the sub-buffer that has been begun */
	EXPECT_EQ(3 * HEAD + 6000, len);
	EXPECT_EQ(0, memcmp(data + HEAD, b.data, 4000));

	next[0] = 30;
	b.len = 0;
	bytes_add(&b, new.map + HEAD, 1400);
	EXPECT_EQ(7, check(_metadata, &b, 0, next, false));
	reader_close(&old);
	reader_close(&new);
	bytes_free(&b);
	ASSERT_EQ(0, module_load("KLOG_RELAY_KO"));
}

struct drain {
	struct reader reader;
	struct bytes bytes;
	int *stop;
	bool ok;
};

static void *drain(void *arg)
{
	struct drain *d = arg;

	while (d->ok && !__atomic_load_n(d->stop, __ATOMIC_ACQUIRE)) {
		struct pollfd pfd = { .fd = d->reader.fd, .events = POLLIN };

		poll(&pfd, 1, 50);
		d->ok = reader_take(&d->reader, &d->bytes);
	}
	return NULL;
}

TEST_F_TIMEOUT(app, all_contexts_on_all_cpus_are_accounted_for, 120)
{
	unsigned int cpus = online_cpus();
	long long missed = info("missed"), logged = 0, got = 0, dropped;
	struct drain d[MAX_CPUS] = {};
	pthread_t thread[MAX_CPUS];
	int stop = 0;

	ASSERT_LE(cpus, MAX_CPUS);
	ASSERT_EQ(0, start(APP, 16384, 8, "no-overwrite"));
	for (unsigned int cpu = 0; cpu < cpus; cpu++) {
		d[cpu].stop = &stop;
		d[cpu].ok = true;
		ASSERT_EQ(0, reader_open(&d[cpu].reader, APP, cpu, 16384, 8));
		ASSERT_EQ(0, pthread_create(&thread[cpu], NULL, drain, &d[cpu]));
	}
	CTL("storm n=%u nmi=1", storm_rounds(30000));
	CTL("stormwait");
	ASSERT_EQ(0, control(APP, "enabled", "0"));
	__atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
	for (unsigned int cpu = 0; cpu < cpus; cpu++)
		pthread_join(thread[cpu], NULL);
	for (unsigned int cpu = 0; cpu < cpus; cpu++) {
		uint32_t next[KST_CONTEXTS] = {};
		long long messages;

		EXPECT_TRUE(d[cpu].ok);
		EXPECT_TRUE(reader_take(&d[cpu].reader, &d[cpu].bytes));
		messages = check(_metadata, &d[cpu].bytes, cpu, next, true);
		ASSERT_GE(messages, 0);
		got += messages;
		for (unsigned int context = 0; context < KST_CONTEXTS; context++)
			logged += info("logged.%u.%u", cpu, context);
		reader_close(&d[cpu].reader);
		bytes_free(&d[cpu].bytes);
	}
	dropped = control_value(APP, "dropped");
	missed = info("missed") - missed;
	TH_LOG("%lld logged, %lld read, %lld dropped, %lld missed", logged, got, dropped, missed);
	EXPECT_GT(got, 0);
	EXPECT_EQ(logged, got + dropped + missed);
}

TEST_F_TIMEOUT(app, unloading_while_a_channel_is_made, 300)
{
	int unloaded;

	EXPECT_EQ(EIO, unload_while_creating(APP, "klog_relay", &unloaded));
	ASSERT_EQ(0, unloaded);
	EXPECT_EQ(-ENOENT, open_in(APP, "create", O_WRONLY));
	ASSERT_EQ(0, module_load("KLOG_RELAY_KO"));
	EXPECT_EQ(0, control(APP, "create", "1"));
}

static void *toggle(void *arg)
{
	int *stop = arg;

	while (!__atomic_load_n(stop, __ATOMIC_ACQUIRE)) {
		control(APP, "enabled", "1");
		control(APP, "enabled", "0");
	}
	return NULL;
}

TEST_F_TIMEOUT(app, channels_come_and_go_under_load, 200)
{
	pthread_t thread;
	int stop = 0;

	CTL("storm n=4000000000 nmi=1");
	ASSERT_EQ(0, pthread_create(&thread, NULL, toggle, &stop));
	for (unsigned int i = 0; i < storm_rounds(30); i++) {
		uint32_t next[KST_CONTEXTS] = {};
		struct bytes b = {};
		struct reader r;

		ASSERT_EQ(0, start(APP, SUBBUF << i % 3, 2 + i % 4, "no-overwrite"));
		ASSERT_EQ(0, reader_open(&r, APP, i % online_cpus(), SUBBUF << i % 3, 2 + i % 4));
		usleep(2000);
		EXPECT_TRUE(reader_take(&r, &b));
		EXPECT_GE(check(_metadata, &b, r.cpu, next, true), 0);
		if (i % 2)
			ASSERT_EQ(0, control(APP, "create", "0"));
		reader_close(&r);
		bytes_free(&b);
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
	CTL("stormend");
}

TEST_HARNESS_MAIN
