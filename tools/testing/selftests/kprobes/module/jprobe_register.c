// SPDX-License-Identifier: GPL-2.0
/*
 * Registration of jprobes: refusals, batches, and hits on all CPUs in the meantime. run.sh checks
 * the reasons in the log.
 */
#include <linux/delay.h>
#include <linux/jiffies.h>
#include <linux/jprobes.h>
#include <linux/ptrace.h>
#include <linux/string.h>

#include "kprobes_selftest.h"

static atomic_long_t calls, wrong;

static int on_target(int a)
{
	atomic_long_inc(&calls);
	if (a < 0 || a > 9)
		atomic_long_inc(&wrong);
	jprobe_return();
	return 0;
}

static int pre(struct kprobe *p, struct pt_regs *regs)
{
	return 0;
}

static void post(struct kprobe *p, struct pt_regs *regs, unsigned long flags)
{
}

/*
 * Returns the result of registering. A failed call leaves the structure unchanged; a successful one
 * is undone.
 */
static int try(struct jprobe jp)
{
	struct jprobe before = jp;
	int err;

	err = register_jprobe(&jp);
	if (err) {
		EXPECT_EQ(jp.kp.addr, before.kp.addr);
		EXPECT_EQ(jp.kp.flags, before.kp.flags);
		EXPECT_EQ(jp.kp.pre_handler, before.kp.pre_handler);
		EXPECT_EQ(jp.kp.post_handler, before.kp.post_handler);
		EXPECT_EQ(jp.entry, before.entry);
	}
	unregister_jprobe(&jp);
	return err;
}

#define TRY(...) try((struct jprobe){ __VA_ARGS__ })
#define TARGET	.kp.symbol_name = "kst_target"

static long data[4];

static void refuse(void)
{
	struct jprobe jp = { TARGET, .entry = on_target };
	long on_stack[4] = { };

	EXPECT_EQ(TRY(TARGET, .entry = on_target), 0);
	EXPECT_EQ(register_jprobe(NULL), -EINVAL);
	EXPECT_EQ(TRY(TARGET), -EINVAL);
	EXPECT_EQ(TRY(TARGET, .entry = on_target, .kp.pre_handler = pre), -EINVAL);
	EXPECT_EQ(TRY(TARGET, .entry = on_target, .kp.post_handler = post), -EINVAL);
	EXPECT_EQ(TRY(TARGET, .entry = data), -EINVAL);
	EXPECT_EQ(TRY(TARGET, .entry = on_stack), -EINVAL);
	EXPECT_EQ(TRY(TARGET, .entry = (void *)0x400000), -EINVAL);
	/* an instruction that is not the first */
	EXPECT_EQ(TRY(.kp.addr = kst_bytes_inside, .entry = on_target), -EINVAL);
	EXPECT_EQ(TRY(.kp.symbol_name = "kst_bytes", .kp.offset = 10, .entry = on_target), -EINVAL);
	/* Refusals by kprobes. */
	EXPECT_EQ(TRY(.entry = on_target), -EINVAL);
	EXPECT_EQ(TRY(TARGET, .kp.addr = kst_bytes, .entry = on_target), -EINVAL);
	EXPECT_EQ(TRY(.kp.symbol_name = "kst_no_such_function", .entry = on_target), -ENOENT);
	EXPECT_EQ(TRY(.kp.symbol_name = "kst_bytes", .kp.offset = 3, .entry = on_target), -EILSEQ);
	EXPECT_EQ(TRY(.kp.symbol_name = "kst_nokprobe", .entry = on_target), -EINVAL);
	EXPECT_EQ(TRY(.kp.symbol_name = "jprobe_return", .entry = on_target), -EINVAL);
	EXPECT_EQ(TRY(.kp.addr = (kprobe_opcode_t *)data, .entry = on_target), -EINVAL);
	/* twice; the first one stays */
	atomic_long_set(&calls, 0);
	EXPECT_EQ(register_jprobe(&jp), 0);
	EXPECT_EQ(register_jprobe(&jp), -EINVAL);
	EXPECT_EQ(kst_target(1), 4);
	EXPECT_EQ(atomic_long_read(&calls), 1);
	unregister_jprobe(&jp);
	EXPECT_EQ(kst_target(1), 4);
	EXPECT_EQ(atomic_long_read(&calls), 1);
}

/* The functions are called once each; so many handlers are. */
static void expect_calls(int count)
{
	atomic_long_set(&calls, 0);
	EXPECT_EQ(kst_target(1), 4);
	EXPECT_EQ(kst_target_2(1), 7);
	EXPECT_EQ(kst_call_bytes(1), 1);
	EXPECT_EQ(atomic_long_read(&calls), count);
}

static void batch(void)
{
	struct jprobe a = { TARGET, .entry = on_target };
	struct jprobe b = { .kp.addr = (kprobe_opcode_t *)kst_target_2, .entry = on_target };
	struct jprobe c = { .kp.addr = kst_bytes, .kp.offset = 10, .entry = on_target };
	struct jprobe *all[] = { &a, &b, &c };
	struct jprobe *twice[] = { &b, &b };
	struct jprobe *null[] = { &b, NULL, &c };

	EXPECT_EQ(register_jprobes(all, 0), -EINVAL);
	EXPECT_EQ(register_jprobes(all, -1), -EINVAL);
	EXPECT_EQ(register_jprobes(NULL, 1), -EINVAL);
	/*
	 * One is not at an entry, not at an instruction, without a handler, NULL, or listed twice:
	 * no probe of the batch is registered.
	 */
	EXPECT_EQ(register_jprobes(all, 3), -EINVAL);
	expect_calls(0);
	EXPECT(!a.kp.addr && !a.kp.pre_handler && !b.kp.pre_handler);
	c.kp.offset = 3;
	EXPECT_EQ(register_jprobes(all, 3), -EILSEQ);
	expect_calls(0);
	EXPECT(!a.kp.addr && !a.kp.pre_handler && !b.kp.pre_handler);
	c.kp.offset = 0;
	c.entry = NULL;
	EXPECT_EQ(register_jprobes(all, 3), -EINVAL);
	c.entry = on_target;
	EXPECT_EQ(register_jprobes(twice, 2), -EINVAL);
	EXPECT_EQ(register_jprobes(null, 3), -EINVAL);
	expect_calls(0);
	EXPECT(!b.kp.pre_handler && !c.kp.pre_handler);
	/* and now it can */
	EXPECT_EQ(register_jprobes(all, 3), 0);
	expect_calls(3);
	unregister_jprobes(all, 0);
	unregister_jprobes(NULL, 3);
	unregister_jprobes(null, 3);
	expect_calls(1);
	unregister_jprobes(all, 3);
	expect_calls(0);
}

/* With the arguments that on_target() takes. */
static bool pass(long i)
{
	return kst_call_bytes(i % 10) == i % 10 && kst_target(2) == 7 && kst_target_2(1) == 7;
}

static atomic_long_t steady_calls, other_calls;

static long on_bytes(long x)
{
	atomic_long_inc(&steady_calls);
	return on_target(x);
}

static long on_other(int x)
{
	atomic_long_inc(&other_calls);
	return on_target(x);
}

/*
 * All CPUs hit jprobes that are registered and unregistered; one stays registered and sees every
 * call.
 */
static void storm(void)
{
	struct jprobe steady = { .kp.addr = kst_bytes, .entry = on_bytes };
	unsigned int rounds = 0;
	long passes;

	atomic_long_set(&calls, 0);
	atomic_long_set(&wrong, 0);
	atomic_long_set(&steady_calls, 0);
	atomic_long_set(&other_calls, 0);
	if (!EXPECT_EQ(register_jprobe(&steady), 0))
		return;
	kst_storm_begin(pass);
	kst_while_case_lasts(rounds) {
		struct jprobe same = { .kp.addr = kst_bytes, .entry = on_target };
		struct jprobe entry = { TARGET, .entry = on_target };
		struct jprobe entry_2 = { .kp.symbol_name = "kst_target_2", .entry = on_other };
		struct jprobe *list[] = { &same, &entry, &entry_2 };

		if (!EXPECT_EQ(register_jprobes(list, ARRAY_SIZE(list)), 0))
			break;
		EXPECT_EQ(disable_jprobe(&same), 0);
		EXPECT_EQ(enable_jprobe(&same), 0);
		if (rounds < 3)
			EXPECT(kst_wait(&other_calls, atomic_long_read(&other_calls)));
		unregister_jprobes(list, ARRAY_SIZE(list));
		EXPECT_EQ(entry.kp.nmissed, 0);
	}
	passes = kst_storm_end();
	unregister_jprobe(&steady);
	EXPECT_EQ(atomic_long_read(&steady_calls), passes);
	EXPECT_EQ(steady.kp.nmissed, 0);
	EXPECT_EQ(atomic_long_read(&wrong), 0);
	case_say("%u rounds, %ld calls\n", rounds, passes);
}

static void switched(void)
{
	struct jprobe jp = { TARGET, .kp.flags = KPROBE_FLAG_DISABLED, .entry = on_target };

	EXPECT_EQ(enable_jprobe(&jp), -EINVAL);
	EXPECT_EQ(enable_jprobe(NULL), -EINVAL);
	EXPECT_EQ(disable_jprobe(NULL), -EINVAL);
	if (!EXPECT_EQ(register_jprobe(&jp), 0))
		return;
	expect_calls(0);
	EXPECT_EQ(enable_jprobe(&jp), 0);
	expect_calls(1);
	EXPECT_EQ(disable_jprobe(&jp), 0);
	expect_calls(0);
	unregister_jprobe(&jp);
	EXPECT_EQ(disable_jprobe(&jp), -EINVAL);
	/* again, and enabled */
	jp.kp.addr = NULL;
	if (!EXPECT_EQ(register_jprobe(&jp), 0))
		return;
	expect_calls(1);
	unregister_jprobe(&jp);
	unregister_jprobe(&jp);
	unregister_jprobe(NULL);
	expect_calls(0);
}

const struct test_case kst_jprobe_register_cases[] = {
	{ "jprobe.refuse", refuse },
	{ "jprobe.batch", batch },
	{ "jprobe.switched", switched },
	{ "jprobe.storm", storm },
	{ }
};
