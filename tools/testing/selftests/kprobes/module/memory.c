// SPDX-License-Identifier: GPL-2.0
/*
 * ftrace gets no memory when the set of functions changes that it calls kprobes from: a probe on its allocation of sets
 * fails it, for the task that has asked for it.
 */
#include <linux/ftrace.h>
#include <linux/ptrace.h>
#include <linux/sched.h>

#include "kprobes_selftest.h"

static struct task_struct *failing;
static unsigned int failed, hits;

/* Has the function return NULL. */
static int fail(struct kprobe *p, struct pt_regs *regs)
{
	if (current != failing)
		return 0;
	failed++;
	regs->ax = 0;
	regs->ip = *(unsigned long *)regs->sp;
	regs->sp += sizeof(unsigned long);
	return 1;
}
NOKPROBE_SYMBOL(fail);

PRE_HANDLER(count, hits++);

POST_HANDLER(count_after, hits++);

static struct kprobe failure = { .symbol_name = "alloc_ftrace_hash", .pre_handler = fail };

#define ON_TARGET	{ .symbol_name = "kst_target", .pre_handler = count }
#define ON_TARGET_2	{ .symbol_name = "kst_target_2", .pre_handler = count }

/*
 * Starts or stops failing the allocations of this task; returns the number of failures since the
 * last call.
 */
static unsigned int fails(bool now)
{
	failing = now ? current : NULL;
	return xchg(&failed, 0);
}

static void end(void)
{
	unregister_kprobe(&failure);
}

static bool begin(void)
{
	static struct ftrace_ops trial;
	int err;

	hits = 0;
	failure.addr = NULL;
	err = register_kprobe(&failure);
	if (err) {
		case_skip("no function alloc_ftrace_hash() to fail");
		return false;
	}
	fails(true);
	err = ftrace_set_filter_ip(&trial, (unsigned long)kst_target, 0, 0);
	if (fails(false))
		return true;
	if (!err)
		ftrace_free_filter(&trial);
	end();
	case_skip("the compiler has put alloc_ftrace_hash() into its callers");
	return false;
}

/* The result of the function, and the total of hits after it. */
#define CALL(function, result, total)			\
	do {						\
		EXPECT_EQ(function(1), result);		\
		EXPECT_EQ(hits, total);			\
	} while (0)

/* Unregisters @p while there is no memory. */
static void unregister_failing(struct kprobe *p)
{
	fails(true);
	unregister_kprobe(p);
	EXPECT(fails(false));
}

/*
 * Probes on two functions are registered and unregistered, one of them without memory. main.c
 * checks the text for remains.
 */
static void removing(void)
{
	struct kprobe a = ON_TARGET, b = ON_TARGET_2;
	struct kprobe after = { .symbol_name = "kst_target", .pre_handler = count, .post_handler = count_after };

	if (!begin())
		return;
	EXPECT_EQ(register_kprobe(&a), 0);
	EXPECT_EQ(register_kprobe(&b), 0);
	unregister_failing(&a);
	hits = 0;
	CALL(kst_target, 4, 0);
	/* The probe is registered again, and hit once. */
	a = (struct kprobe)ON_TARGET;
	EXPECT_EQ(register_kprobe(&a), 0);
	CALL(kst_target, 4, 1);
	unregister_failing(&a);
	/*
	 * So is a probe that ftrace calls in another way: it is refused as long as there is no
	 * memory.
	 */
	fails(true);
	EXPECT_EQ(register_kprobe(&after), -ENOMEM);
	EXPECT(fails(false));
	after.addr = NULL;
	EXPECT_EQ(register_kprobe(&after), 0);
	CALL(kst_target, 4, 3);
	CALL(kst_target_2, 7, 4);
	unregister_kprobe(&after);
	unregister_kprobe(&b);
	end();
}

/* The last probe is unregistered while there is no memory. */
static void removing_last(void)
{
	struct kprobe a = ON_TARGET, b = ON_TARGET_2;

	if (!begin())
		return;
	EXPECT_EQ(register_kprobe(&a), 0);
	unregister_failing(&a);
	EXPECT_EQ(kst_target(1), 4);
	EXPECT_EQ(register_kprobe(&b), 0);
	CALL(kst_target, 4, 0);
	CALL(kst_target_2, 7, 1);
	unregister_kprobe(&b);
	end();
}

/* Disabling fails, and the probe stays enabled. */
static void disabling(void)
{
	struct kprobe a = ON_TARGET, b = ON_TARGET_2;

	if (!begin())
		return;
	EXPECT_EQ(register_kprobe(&a), 0);
	EXPECT_EQ(register_kprobe(&b), 0);
	fails(true);
	EXPECT_EQ(disable_kprobe(&a), -ENOMEM);
	EXPECT(fails(false));
	EXPECT(!kprobe_disabled(&a));
	CALL(kst_target, 4, 1);
	EXPECT_EQ(disable_kprobe(&a), 0);
	CALL(kst_target, 4, 1);
	fails(true);
	EXPECT_EQ(enable_kprobe(&a), -ENOMEM);
	EXPECT(fails(false));
	EXPECT(kprobe_disabled(&a));
	EXPECT_EQ(enable_kprobe(&a), 0);
	CALL(kst_target, 4, 2);
	unregister_kprobe(&a);
	unregister_kprobe(&b);
	end();
}

const struct test_case kst_memory_cases[] = {
	{ "memory.removing", removing },
	{ "memory.removing_last", removing_last },
	{ "memory.disabling", disabling },
	{ }
};
