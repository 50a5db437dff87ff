// SPDX-License-Identifier: GPL-2.0
/*
 * Arming is one step, as other CPUs see it: all CPUs execute two hooks, in both orders, while a
 * list of an exit on each is armed and disarmed.
 *
 * Without preemption, the step is before both or after both. In an NMI or a task it may happen in
 * between; but there is only one instant: while the list is being armed, no CPU finds the first
 * hook armed and then the second one not; while it is being disarmed, not the first unarmed and
 * then the second armed. Other exits that are armed on one of the hooks are never missed.
 *
 * The looks are placed: all CPUs look in each stable state, in both orders; and the arming task
 * looks where the registry calls a function between its steps, which ftrace traces. Looks of other
 * CPUs at other moments are counted in addition.
 */
#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/ftrace.h>
#include <linux/jiffies.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/percpu.h>
#include <linux/preempt.h>
#include <linux/sched.h>
#include <linux/string.h>
#include <linux/workqueue.h>

#include "gkhi_selftest.h"

enum { DISARMED, ARMING, ARMED, DISARMING };

struct looks {
	unsigned long all, both, none, split, halves, wrong, missed;
	/* all of them, when a wait began */
	unsigned long before;
	bool reverse;
};

static DEFINE_PER_CPU(struct looks, looks);
/* Looks of the arming task, between the steps. */
static struct looks inside;
static unsigned long phase;
static bool task;

/* Leaves a mark in the variable of the exit. */
static GKH_EXIT_1VAR(mark, self, p)
{
	*(int *)p |= 1;
	return GKH_CONTINUE;
}

static GKH_EXIT_1VAR(mark_bystander, self, p)
{
	*(int *)p |= 2;
	return GKH_CONTINUE;
}

static __always_inline void come_by(int *a, int *b, bool reverse)
{
	if (task) {
		if (reverse)
			GKHOOK_1VAR_RO(gst_task_b, b);
		GKHOOK_1VAR_RO(gst_task_a, a);
		if (!reverse)
			GKHOOK_1VAR_RO(gst_task_b, b);
	} else {
		if (reverse)
			GKHOOK_1VAR_RO(gst_b, b);
		GKHOOK_1VAR_RO(gst_a, a);
		if (!reverse)
			GKHOOK_1VAR_RO(gst_b, b);
	}
}

/* Counts a look; @whole: the step cannot have fallen into it. */
static void judge(struct looks *l, int a, int b, unsigned long before, unsigned long after, bool reverse,
		  bool whole)
{
	bool first = (reverse ? b : a) & 1, second = (reverse ? a : b) & 1;

	if (!((a | b) & 2))
		l->missed++;
	if (first && second)
		l->both++;
	else if (!first && !second)
		l->none++;
	else
		l->split++;
	if (whole && first != second)
		l->halves++;
	if (before != after)
		return;
	switch (before & 3) {
	case ARMING:
		l->halves += !whole && first && !second;
		break;
	case DISARMING:
		l->halves += !whole && !first && second;
		break;
	case ARMED:
		l->wrong += !first || !second;
		break;
	case DISARMED:
		l->wrong += first || second;
		break;
	}
}

static void look(bool whole)
{
	struct looks *l = raw_cpu_ptr(&looks);
	unsigned long before, after;
	int a = 0, b = 0;
	bool reverse = l->reverse;

	/* pairs with set_phase() */
	before = smp_load_acquire(&phase);
	come_by(&a, &b, reverse);
	/* The observed values are from before this. */
	smp_rmb();
	after = READ_ONCE(phase);
	l->reverse = !reverse;
	judge(l, a, b, before, after, reverse, whole);
	/* pairs with three_more_each(): looks that are counted have been judged */
	smp_store_release(&l->all, l->all + 1);
}

/* The first one may have begun before. The next two are in both orders. */
static bool three_more_each(void *unused)
{
	unsigned int cpu;

	for_each_online_cpu(cpu) {
		struct looks *l = per_cpu_ptr(&looks, cpu);

		/* pairs with look() */
		if (smp_load_acquire(&l->all) - l->before < 3)
			return false;
	}
	return true;
}

/* Returns when each CPU has looked at the exits in both orders. */
static void all_look(void)
{
	unsigned int cpu;

	for_each_online_cpu(cpu) {
		struct looks *l = per_cpu_ptr(&looks, cpu);

		l->before = READ_ONCE(l->all);
	}
	EXPECT(gst_wait(three_more_each, NULL));
}

static void look_in_nmi(void)
{
	look(false);
}

static void look_whole(void *unused)
{
	preempt_disable();
	look(true);
	preempt_enable();
}

static void look_preempted(void *unused)
{
	/* The threads are bound to their CPUs, and only they use these counters. */
	look(false);
}

static void next_phase(void)
{
	/* Exits are armed before a CPU sees the phase. */
	smp_store_release(&phase, phase + 1);
	/* and the phase is found before the next change */
	smp_mb();
}

struct pair {
	struct gkh_record a, b, bystander;
};

static struct pair pairs[2] = {
	{
		{ .hook = "gst_a", .name = "pair_a", .exit = mark, .params = 1 },
		{ .hook = "gst_b", .name = "pair_b", .exit = mark, .params = 1 },
		{ .name = "bystander", .exit = mark_bystander, .params = 1 },
	},
	{
		{ .hook = "gst_task_a", .name = "pair_a", .exit = mark, .params = 1 },
		{ .hook = "gst_task_b", .name = "pair_b", .exit = mark, .params = 1 },
		{ .name = "bystander", .exit = mark_bystander, .params = 1 },
	},
};

#ifdef CONFIG_DYNAMIC_FTRACE
/* While it arms or disarms. */
static struct task_struct *changing;

/*
 * The arming task is where a hook gets or loses its last exit, or where the CPUs are about to be
 * stopped: between the steps of a change. Its view is the view of an idle CPU.
 */
static void notrace between_steps(unsigned long ip, unsigned long parent, struct ftrace_ops *ops,
				  struct ftrace_regs *fregs)
{
	int order;

	if (current != READ_ONCE(changing) || in_nmi() || in_hardirq())
		return;
	preempt_disable_notrace();
	for (order = 0; order < 2; order++) {
		int a = 0, b = 0;

		come_by(&a, &b, order);
		judge(&inside, a, b, phase, phase, order, true);
		inside.all++;
	}
	preempt_enable_notrace();
}

static struct ftrace_ops steps = { .func = between_steps };

static bool trace_function(struct ftrace_ops *ops, char *name)
{
	return EXPECT_EQ(ftrace_set_filter(ops, name, strlen(name), 0), 0);
}

static bool watch_steps(void)
{
	memset(&inside, 0, sizeof(inside));
	return trace_function(&steps, "ferro_hook_activate") && trace_function(&steps, "ferro_stop_machine") &&
	       EXPECT_EQ(register_ftrace_function(&steps), 0);
}

static void unwatch_steps(void)
{
	EXPECT_EQ(unregister_ftrace_function(&steps), 0);
	ftrace_free_filter(&steps);
	EXPECT(inside.all > 0);
}

static int watched(int (*op)(struct gkh_record *), struct gkh_record *list)
{
	int err;

	WRITE_ONCE(changing, current);
	err = op(list);
	WRITE_ONCE(changing, NULL);
	return err;
}
#else
static bool watch_steps(void)
{
	return true;
}

static void unwatch_steps(void)
{
}

static int watched(int (*op)(struct gkh_record *), struct gkh_record *list)
{
	return op(list);
}
#endif

static int change(struct pair *pair, int (*op)(struct gkh_record *), bool one_by_one)
{
	int err;

	pair->a.next = one_by_one ? NULL : &pair->b;
	pair->b.next = NULL;
	err = watched(op, &pair->a);
	if (err || !one_by_one)
		return err;
	all_look();
	return watched(op, &pair->b);
}

enum how { WHOLE, NMI, PREEMPTED };

static struct gst_crew *crew;

static void begin_looks(enum how how)
{
	if (how == NMI)
		EXPECT_EQ(gst_nmi_start(look_in_nmi), 0);
	else
		crew = gst_hire(how == WHOLE ? look_whole : look_preempted, NULL);
}

static void end_looks(enum how how)
{
	if (how == NMI)
		gst_nmi_stop();
	else
		gst_dismiss(crew);
}

/* Arms and disarms under looks, with the bystander on one of the hooks; returns how many rounds. */
static unsigned int rounds_of(struct pair *pair, const char *bystander, enum how how, bool one_by_one)
{
	unsigned long end = jiffies + msecs_to_jiffies(case_ms / 2);
	unsigned int rounds = 0;

	pair->bystander.hook = bystander;
	if (!EXPECT_EQ(gkh_register(&pair->bystander), 0))
		return 0;
	EXPECT_EQ(gkh_arm(&pair->bystander), 0);
	begin_looks(how);
	/* on a busy machine as long as it takes */
	while (time_before(jiffies, end) || rounds < 3) {
		next_phase();
		if (!EXPECT_EQ(change(pair, gkh_arm, one_by_one), 0))
			break;
		next_phase();
		all_look();
		next_phase();
		if (!EXPECT_EQ(change(pair, gkh_disarm, one_by_one), 0))
			break;
		next_phase();
		all_look();
		rounds++;
	}
	end_looks(how);
	EXPECT_EQ(gkh_deregister(&pair->bystander), 0);
	return rounds;
}

/* Returns how many looks saw a half. */
static unsigned long watch(enum how how, bool one_by_one)
{
	struct pair *pair = &pairs[how == PREEMPTED];
	struct looks sum = {};
	unsigned int cpu, rounds;

	task = how == PREEMPTED;
	for_each_possible_cpu(cpu)
		memset(per_cpu_ptr(&looks, cpu), 0, sizeof(struct looks));
	phase = DISARMED;
	if (!watch_steps())
		return 0;
	EXPECT_EQ(gkh_register(&pair->a), 0);
	EXPECT_EQ(gkh_register(&pair->b), 0);
	/* the steps show at a hook that has no other exit */
	rounds = rounds_of(pair, pair->a.hook, how, one_by_one);
	rounds += rounds_of(pair, pair->b.hook, how, one_by_one);
	pair->a.next = &pair->b;
	EXPECT_EQ(gkh_deregister(&pair->a), 0);
	unwatch_steps();

	for_each_online_cpu(cpu) {
		struct looks *l = per_cpu_ptr(&looks, cpu);

		EXPECT(l->both > 0);
		EXPECT(l->none > 0);
		EXPECT(!one_by_one || l->halves > 0);
		sum.all += l->all;
		sum.both += l->both;
		sum.none += l->none;
		sum.split += l->split;
		sum.halves += l->halves;
		sum.wrong += l->wrong;
		sum.missed += l->missed;
	}
	EXPECT_EQ(sum.missed + inside.missed, 0);
	EXPECT_EQ(sum.wrong + inside.wrong, 0);
	case_say("%u rounds, %lu looks: %lu saw both, %lu none, %lu one of them; %lu halves\n", rounds, sum.all,
		sum.both, sum.none, sum.split, sum.halves);
	case_say("%lu looks between the steps: %lu halves\n", inside.all, inside.halves);
	return sum.halves + inside.halves;
}

void gst_atomic_preempt_off(void)
{
	EXPECT_EQ(watch(WHOLE, false), 0);
}

void gst_atomic_nmi(void)
{
	EXPECT_EQ(watch(NMI, false), 0);
}

void gst_atomic_task(void)
{
	EXPECT_EQ(watch(PREEMPTED, false), 0);
}

/* The judge sees it when it is not one step. */
void gst_atomic_one_by_one(void)
{
	EXPECT(watch(WHOLE, true) > 0);
}

void gst_atomic_one_by_one_nmi(void)
{
	EXPECT(watch(NMI, true) > 0);
}

#ifdef CONFIG_DYNAMIC_FTRACE
/* A CPU that passes both hooks in one section with preemption off. */
struct section {
	bool within, stopping, over;
	int a, b;
};

static struct section section;

static void notrace on_stop(unsigned long ip, unsigned long parent, struct ftrace_ops *ops, struct ftrace_regs *fregs)
{
	WRITE_ONCE(section.stopping, true);
}

static struct ftrace_ops stop_ops = { .func = on_stop };

/*
 * Stays between the hooks until the CPUs are about to be stopped, and some time longer; waits at
 * most 2 s for a registry that does not stop them.
 */
static int come_by_slowly(void *unused)
{
	u64 end, least;

	preempt_disable();
	GKHOOK_1VAR_RO(gst_a, &section.a);
	WRITE_ONCE(section.within, true);
	end = ktime_get_ns() + 2 * NSEC_PER_SEC;
	while (!READ_ONCE(section.stopping) && ktime_get_ns() < end)
		cpu_relax();
	least = ktime_get_ns() + 50 * NSEC_PER_MSEC;
	while (ktime_get_ns() < least)
		cpu_relax();
	GKHOOK_1VAR_RO(gst_b, &section.b);
	preempt_enable();
	WRITE_ONCE(section.over, true);
	while (!kthread_should_stop())
		schedule_timeout_interruptible(1);
	return 0;
}

static bool is_set(void *flag)
{
	return READ_ONCE(*(bool *)flag);
}

static long arm_here(void *list)
{
	return gkh_arm(list);
}

static long disarm_here(void *list)
{
	return gkh_disarm(list);
}

/* One CPU is between the hooks while another one arms or disarms. */
static void change_in_section(unsigned int cpu, unsigned int other, long (*op)(void *list), struct gkh_record *list,
			      int want)
{
	struct task_struct *t = kthread_create_on_cpu(come_by_slowly, NULL, cpu, "gkhi_section/%u");

	if (!EXPECT(!IS_ERR(t)))
		return;
	memset(&section, 0, sizeof(section));
	wake_up_process(t);
	if (EXPECT(gst_wait(is_set, &section.within)))
		EXPECT_EQ(work_on_cpu(other, op, list), 0);
	EXPECT(gst_wait(is_set, &section.over));
	kthread_stop(t);
	EXPECT(section.stopping);
	EXPECT_EQ(section.a, want);
	EXPECT_EQ(section.b, want);
}

/* The step falls into no section with preemption off, however long it is. */
void gst_atomic_section(void)
{
	unsigned int cpu = cpumask_first(cpu_online_mask), other = cpumask_next(cpu, cpu_online_mask);
	struct pair *pair = &pairs[0];

	if (other >= nr_cpu_ids)
		return case_skip("one CPU");
	EXPECT_EQ(gkh_register(&pair->a), 0);
	EXPECT_EQ(gkh_register(&pair->b), 0);
	pair->a.next = &pair->b;
	if (trace_function(&stop_ops, "ferro_stop_machine") && EXPECT_EQ(register_ftrace_function(&stop_ops), 0)) {
		change_in_section(cpu, other, arm_here, &pair->a, 0);
		change_in_section(cpu, other, disarm_here, &pair->a, 1);
		EXPECT_EQ(unregister_ftrace_function(&stop_ops), 0);
	}
	ftrace_free_filter(&stop_ops);
	EXPECT_EQ(gkh_deregister(&pair->a), 0);
}
#else
void gst_atomic_section(void)
{
	case_skip("no dynamic ftrace");
}
#endif
