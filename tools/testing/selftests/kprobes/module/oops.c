// SPDX-License-Identifier: GPL-2.0
/*
 * The kernel kills a task within a handler, at an ftrace site or when a function returns: the log
 * has an Oops. No state of that stays on its CPU.
 */
#include <linux/bug.h>
#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/rcupdate.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include "jump.h"

static struct task_struct *victim;
static unsigned int hits;

PRE_HANDLER(dies, BUG_ON(current == victim));

RETURN_HANDLER(dies_returning, BUG_ON(current == victim));

RETURN_HANDLER(dies_entering, BUG_ON(current == victim));

static unsigned int returns;

RETURN_HANDLER(count_return, returns++);

PRE_HANDLER(count, hits++);

static int comes_by(void *unused)
{
	return kst_target(1);
}

/* A task on a CPU that does this, and ends within it. */
static void kill_in(int (*does)(void *), unsigned int cpu)
{
	unsigned int tries = 0;

	victim = kthread_create(does, NULL, "kst_victim");
	if (!EXPECT(!IS_ERR(victim)))
		return;
	get_task_struct(victim);
	kthread_bind(victim, cpu);
	wake_up_process(victim);
	while (!READ_ONCE(victim->exit_state) && tries++ < 1000)
		msleep(20);
	EXPECT(READ_ONCE(victim->exit_state));
	put_task_struct(victim);
	victim = NULL;
}

/* Kills a task that calls kst_target(). */
static void kill_on(unsigned int cpu)
{
	kill_in(comes_by, cpu);
}

static void come_by(void *unused)
{
	EXPECT_EQ(kst_call_bytes(3), 3);
}

static void fault(void *unused)
{
	long value;

	EXPECT_EQ(copy_from_kernel_nofault(&value, (void *)0xffffeb0000000000, sizeof(value)), -EFAULT);
}

/* Returns true if probes are hit on that CPU. */
static bool hits_on(unsigned int cpu)
{
	struct kprobe kp = { .addr = (kprobe_opcode_t *)kst_bytes_inside, .pre_handler = count };
	bool ok;

	hits = 0;
	EXPECT_EQ(register_kprobe(&kp), 0);
	EXPECT_EQ(smp_call_function_single(cpu, come_by, NULL, true), 0);
	unregister_kprobe(&kp);
	ok = EXPECT_EQ(hits, 1);
	return EXPECT_EQ(kp.nmissed, 0) && ok;
}

/* The CPU on which to do it: another one, if there is one. */
static unsigned int some_cpu(void)
{
	return cpumask_last(cpu_online_mask);
}

static void at_entry(void)
{
	struct kprobe *kp = kzalloc_obj(*kp);
	unsigned int cpu = some_cpu();

	if (!EXPECT(kp))
		return;
	kp->addr = (kprobe_opcode_t *)kst_target;
	kp->pre_handler = dies;
	EXPECT_EQ(register_kprobe(kp), 0);
	kill_on(cpu);
	EXPECT(hits_on(cpu));
	unregister_kprobe(kp);
	/* and the next fault there does not look for a handler in it */
	memset(kp, 0x6b, sizeof(*kp));
	if (hits_on(cpu))
		EXPECT_EQ(smp_call_function_single(cpu, fault, NULL, true), 0);
	kfree(kp);
}

static void at_return(void)
{
	struct kretprobe rp = { .kp.addr = (kprobe_opcode_t *)kst_target, .handler = dies_returning };
	unsigned int cpu = some_cpu();

	EXPECT_EQ(register_kretprobe(&rp), 0);
	kill_on(cpu);
	EXPECT(hits_on(cpu));
	unregister_kretprobe(&rp);
	EXPECT(hits_on(cpu));
}

/* The instance of the killed task is free for others. */
static void entering(void)
{
	struct kretprobe rp = {
		.kp.addr = (kprobe_opcode_t *)kst_target,
		.entry_handler = dies_entering,
		.handler = count_return,
		.maxactive = 1,
	};
	unsigned int cpu = some_cpu(), tries;

	EXPECT_EQ(register_kretprobe(&rp), 0);
	kill_on(cpu);
	EXPECT(hits_on(cpu));
	returns = 0;
	/* The instance is returned in an RCU callback. */
	for (tries = 0; !returns && tries < 500; tries++) {
		rcu_barrier();
		EXPECT_EQ(kst_target(1), 4);
	}
	EXPECT_EQ(returns, 1);
	/* no call but those was missed */
	EXPECT_EQ(rp.nmissed + 1, tries);
	EXPECT_EQ(kst_target(1), 4);
	EXPECT_EQ(returns, 2);
	unregister_kretprobe(&rp);
	EXPECT(hits_on(cpu));
}

static const unsigned long zero[3];
/* Address that the task killed in kst_dies() reads, and that the log shows. */
#define NOWHERE ((void *)0xdea)

static int first_faults(void *unused)
{
	return kst_dies(NOWHERE, zero);
}

static int second_faults(void *unused)
{
	return kst_dies(zero, NOWHERE);
}

POST_HANDLER(post, hits++);

/* A displaced instruction faults, through a jump. run.sh checks the log. */
static void in_jump(int (*does)(void *), kprobe_post_handler_t on_post)
{
	struct kprobe kp = { .addr = kst_places[KST_DIES], .pre_handler = count, .post_handler = on_post };
	unsigned int cpu = some_cpu();

	EXPECT_EQ(register_kprobe(&kp), 0);
	if (!on_post || IS_ENABLED(CONFIG_KPROBES_RUST))
		EXPECT(kst_becomes(kp.addr, KST_JUMP));
	EXPECT_EQ(kst_dies(zero, zero), 0);
	kill_in(does, cpu);
	EXPECT(hits_on(cpu));
	EXPECT_EQ(kst_dies(zero, zero), 0);
	unregister_kprobe(&kp);
}

static void in_jump_first(void)
{
	in_jump(first_faults, NULL);
}

static void in_jump_second(void)
{
	in_jump(second_faults, NULL);
}

static void in_jump_around_first(void)
{
	in_jump(first_faults, post);
}

static void in_jump_around_second(void)
{
	in_jump(second_faults, post);
}

const struct test_case kst_oops_cases[] = {
	{ "oops.at_entry", at_entry },
	{ "oops.at_return", at_return },
	{ "oops.entering", entering },
	{ "oops.in_jump_first", in_jump_first },
	{ "oops.in_jump_second", in_jump_second },
	{ "oops.in_jump_around_first", in_jump_around_first },
	{ "oops.in_jump_around_second", in_jump_around_second },
	{ }
};
