// SPDX-License-Identifier: GPL-2.0
/*
 * Registering, arming, disarming and deregistering all the time: while NMIs dispatch, and on all CPUs at once.
 */
#include <linux/cpumask.h>
#include <linux/jiffies.h>
#include <linux/percpu.h>
#include <linux/preempt.h>

#include "gkhi_selftest.h"

static DEFINE_PER_CPU(unsigned long, fired);
static DEFINE_PER_CPU(unsigned long, steady_calls);
static DEFINE_PER_CPU(unsigned long, other_calls);
static bool others_may;
static atomic_t stray;

static GKH_EXIT_0VAR(steady, self)
{
	raw_cpu_inc(steady_calls);
	return GKH_CONTINUE;
}

static GKH_EXIT_0VAR(other, self)
{
	raw_cpu_inc(other_calls);
	/* When disarming has returned, no task is in the exit. */
	if (!READ_ONCE(others_may))
		atomic_inc(&stray);
	return GKH_CONTINUE;
}

static void fire_in_nmi(void)
{
	raw_cpu_inc(fired);
	GKHOOK_1VAR_RO(gst_a, NULL);
	GKHOOK_1VAR_RO(gst_b, NULL);
}

void gst_churn_nmi(void)
{
	struct gkh_record steady_b = { .hook = "gst_b", .name = "steady", .exit = steady };
	struct gkh_record steady_a = { .hook = "gst_a", .name = "steady", .exit = steady, .next = &steady_b };
	struct gkh_record records[3] = {
		{ .hook = "gst_a", .name = "lifo", .exit = other, .flags = GKH_LIFO },
		{ .hook = "gst_a", .name = "fifo", .exit = other },
		{ .hook = "gst_b", .name = "last", .exit = other, .flags = GKH_LAST },
	};
	unsigned long end, sum = 0, others = 0;
	unsigned int cpu, i, rounds = 0;

	if (!EXPECT_EQ(gkh_register(&steady_a), 0))
		return;
	EXPECT_EQ(gkh_register(&steady_b), 0);
	for_each_possible_cpu(cpu) {
		per_cpu(fired, cpu) = 0;
		per_cpu(steady_calls, cpu) = 0;
		per_cpu(other_calls, cpu) = 0;
	}
	atomic_set(&stray, 0);
	EXPECT_EQ(gkh_arm(&steady_a), 0);
	EXPECT_EQ(gst_nmi_start(fire_in_nmi), 0);
	end = jiffies + msecs_to_jiffies(case_ms);
	while (time_before(jiffies, end) || rounds < 10) {
		for (i = 0; i < 3; i++) {
			EXPECT_EQ(gkh_register(&records[i]), 0);
			records[i].next = i < 2 ? &records[i + 1] : NULL;
		}
		WRITE_ONCE(others_may, true);
		/* alone, then all */
		records[1].next = NULL;
		EXPECT_EQ(gkh_arm(&records[1]), 0);
		records[1].next = &records[2];
		EXPECT_EQ(gkh_arm(&records[0]), 0);
		if (!rounds)
			EXPECT(gst_nmi_everywhere());
		EXPECT_EQ(gkh_disarm(&records[2]), 0);
		EXPECT_EQ(rounds % 2 ? gkh_disarm(&records[0]) : gkh_deregister(&records[0]), 0);
		WRITE_ONCE(others_may, false);
		if (rounds % 2)
			EXPECT_EQ(gkh_deregister(&records[0]), 0);
		rounds++;
	}
	gst_nmi_stop();
	for_each_online_cpu(cpu) {
		sum += per_cpu(fired, cpu);
		others += per_cpu(other_calls, cpu);
		/* of the first round at least */
		EXPECT(per_cpu(other_calls, cpu) >= 3);
		EXPECT_EQ(per_cpu(steady_calls, cpu), 2 * per_cpu(fired, cpu));
	}
	EXPECT_EQ(atomic_read(&stray), 0);
	EXPECT_EQ(gkh_deregister(&steady_a), 0);
	case_say("%u rounds, %lu NMIs, %lu calls of exits that came and went\n", rounds, sum, others);
}

struct turn {
	unsigned long mine, calls;
};

/* Counts for its own thread only: the other threads call it, too. */
static GKH_EXIT_1VAR(count_own, self, p)
{
	struct turn *turn = self->data;

	if (p == turn->mine)
		turn->calls++;
	return GKH_CONTINUE;
}

static void fire_own(struct turn *turn)
{
	preempt_disable();
	GKHOOK_1VAR_RO(gst_a, turn->mine);
	preempt_enable();
}

static atomic_t done;

static void do_rounds(void *unused)
{
	unsigned int i, cpu = raw_smp_processor_id();
	struct turn turn = { .mine = cpu + 1 };
	char name[16];
	struct gkh_record record = {
		.hook = "gst_a", .name = name, .exit = count_own, .params = 1, .data = &turn,
	};

	snprintf(name, sizeof(name), "round%u", cpu);
	for (i = 0; i < gst_rounds; i++) {
		int err;

		record.flags = i % 2 ? GKH_LIFO : GKH_IRQS_OFF;
		err = gkh_register(&record);
		if (!EXPECT_EQ(err, 0))
			break;
		fire_own(&turn);
		err = gkh_arm(&record);
		fire_own(&turn);
		fire_own(&turn);
		/* every other time deregistering disarms */
		if (i % 4 < 2)
			err = err ?: gkh_disarm(&record);
		else
			err = err ?: gkh_deregister(&record);
		fire_own(&turn);
		if (i % 4 < 2)
			err = err ?: gkh_deregister(&record);
		fire_own(&turn);
		if (!EXPECT_EQ(err, 0) || !EXPECT_EQ(turn.calls, 2UL * (i + 1)))
			break;
		atomic_inc(&done);
	}
	if (record.id)
		gkh_deregister(&record);
}

void gst_churn_rounds(void)
{
	atomic_set(&done, 0);
	EXPECT_EQ(gst_at_once(do_rounds, NULL), 0);
	EXPECT_EQ(atomic_read(&done), gst_rounds * num_online_cpus());
	case_say("%u rounds on %u CPUs\n", gst_rounds, num_online_cpus());
}
