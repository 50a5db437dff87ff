// SPDX-License-Identifier: GPL-2.0
/*
 * Arming is one step, as the other CPUs see it: all come by two hooks, in both orders, while a list of an exit on each is
 * armed and disarmed.
 *
 * Where nothing preempts, the step is before both or after both. An NMI or a task may have it happen in
 * between; but there is only one instant: while the list is being armed, nobody finds the first hook armed
 * and then the second one not; while it is being disarmed, not the first not and then the second. And what else
 * is armed on one of the hooks is never missed.
 */
#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/jiffies.h>
#include <linux/percpu.h>
#include <linux/preempt.h>
#include <linux/string.h>

#include "gkhi_selftest.h"

enum { DISARMED, ARMING, ARMED, DISARMING };

struct looks {
	unsigned long all, both, none, split, halves, wrong, missed;
	bool reverse;
};

static DEFINE_PER_CPU(struct looks, looks);
static unsigned long phase;
static bool task;

/* What an exit leaves behind. */
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

	l->all++;
	if (!(a & 2))
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
	/* what was seen is from before this */
	smp_rmb();
	after = READ_ONCE(phase);
	l->reverse = !reverse;
	judge(l, a, b, before, after, reverse, whole);
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
	/* the threads are bound to their CPUs, and nobody else has its counters */
	look(false);
}

static void next_phase(void)
{
	/* what is armed is so before anybody finds the phase */
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
		{ .hook = "gst_a", .name = "bystander", .exit = mark_bystander, .params = 1 },
	},
	{
		{ .hook = "gst_task_a", .name = "pair_a", .exit = mark, .params = 1 },
		{ .hook = "gst_task_b", .name = "pair_b", .exit = mark, .params = 1 },
		{ .hook = "gst_task_a", .name = "bystander", .exit = mark_bystander, .params = 1 },
	},
};

static int change(struct pair *pair, int (*op)(struct gkh_record *), bool one_by_one)
{
	int err;

	pair->a.next = one_by_one ? NULL : &pair->b;
	pair->b.next = NULL;
	err = op(&pair->a);
	return err || !one_by_one ? err : op(&pair->b);
}

enum how { WHOLE, NMI, PREEMPTED };

/* Arms and disarms under looks; returns how many of them saw a half. */
static unsigned long watch(enum how how, bool one_by_one)
{
	struct pair *pair = &pairs[how == PREEMPTED];
	struct looks sum = {};
	struct gst_crew *crew = NULL;
	unsigned int cpu, rounds = 0;
	unsigned long end;

	task = how == PREEMPTED;
	for_each_possible_cpu(cpu)
		memset(per_cpu_ptr(&looks, cpu), 0, sizeof(struct looks));
	phase = DISARMED;
	if (!EXPECT_EQ(gkh_register(&pair->bystander), 0))
		return 0;
	EXPECT_EQ(gkh_register(&pair->a), 0);
	EXPECT_EQ(gkh_register(&pair->b), 0);
	EXPECT_EQ(gkh_arm(&pair->bystander), 0);

	if (how == NMI)
		EXPECT_EQ(gst_nmi_start(look_in_nmi), 0);
	else
		crew = gst_hire(how == WHOLE ? look_whole : look_preempted, NULL);
	end = jiffies + msecs_to_jiffies(gst_ms);
	/* on a busy machine as long as it takes */
	while (time_before(jiffies, end) || rounds < 10) {
		next_phase();
		if (!EXPECT_EQ(change(pair, gkh_arm, one_by_one), 0))
			break;
		next_phase();
		usleep_range(20, 200);
		next_phase();
		if (!EXPECT_EQ(change(pair, gkh_disarm, one_by_one), 0))
			break;
		next_phase();
		rounds++;
	}
	if (how == NMI)
		gst_nmi_stop();
	else
		gst_dismiss(crew);

	pair->bystander.next = &pair->a;
	pair->a.next = &pair->b;
	EXPECT_EQ(gkh_deregister(&pair->bystander), 0);
	pair->bystander.next = NULL;

	for_each_online_cpu(cpu) {
		struct looks *l = per_cpu_ptr(&looks, cpu);

		EXPECT(l->both > 0);
		EXPECT(l->none > 0);
		sum.all += l->all;
		sum.both += l->both;
		sum.none += l->none;
		sum.split += l->split;
		sum.halves += l->halves;
		sum.wrong += l->wrong;
		sum.missed += l->missed;
	}
	EXPECT_EQ(sum.missed, 0);
	EXPECT_EQ(sum.wrong, 0);
	gst_say("%u rounds, %lu looks: %lu saw both, %lu none, %lu one of them; %lu halves\n", rounds,
		sum.all, sum.both, sum.none, sum.split, sum.halves);
	return sum.halves;
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
