// SPDX-License-Identifier: GPL-2.0
/*
 * Exits that disarm themselves.
 */
#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/jiffies.h>
#include <linux/jump_label.h>
#include <linux/ktime.h>
#include <linux/percpu.h>
#include <linux/preempt.h>

#include "gkhi_selftest.h"

static atomic_t calls, wins, late;
/* Number of calls that must be in the exit before one continues; the wait is limited. */
static atomic_t awaited;
static DEFINE_PER_CPU(bool, gone);

static GKH_EXIT_1VAR(leave, self, p)
{
	u64 end;

	/* Where preemption is off, or no other task runs. */
	if (raw_cpu_read(gone))
		atomic_inc(&late);
	atomic_inc(&calls);
	atomic_dec(&awaited);
	end = ktime_get_mono_fast_ns() + 60 * NSEC_PER_SEC;
	while (atomic_read(&awaited) > 0 && ktime_get_mono_fast_ns() < end)
		cpu_relax();
	if (gkh_disarm_self(self))
		atomic_inc(&wins);
	/* Disarmed now, by this call or by another one. */
	raw_cpu_write(gone, true);
	return GKH_CONTINUE;
}

static struct gkh_record leaver = { .hook = "gst_a", .name = "leaver", .exit = leave, .params = 1 };

static struct gkh_record stopped = {
	.hook = "gst_sleep", .name = "leaver", .exit = leave, .params = 1, .flags = GKH_CPUS_STOPPED,
};

static void fire_some(void *unused)
{
	int i;

	for (i = 0; i < 20; i++) {
		preempt_disable();
		GKHOOK_1VAR_RO(gst_a, &i);
		preempt_enable();
	}
}

static void fire_asleep(void *unused)
{
	GKHOOK_1VAR_RO(gst_sleep, 1);
	GKHOOK_1VAR_RO(gst_sleep, 2);
}

static void forget_all(void)
{
	unsigned int cpu;

	atomic_set(&calls, 0);
	atomic_set(&wins, 0);
	atomic_set(&late, 0);
	atomic_set(&awaited, 0);
	for_each_possible_cpu(cpu)
		per_cpu(gone, cpu) = false;
}

void gst_leave_race(void)
{
	unsigned int round, rounds = min(60, gst_rounds / 5), cpus = num_online_cpus();

	if (!EXPECT_EQ(gkh_register(&leaver), 0))
		return;
	for (round = 0; round < rounds; round++) {
		forget_all();
		/* All are in it before one disarms; every other time the order is random. */
		atomic_set(&awaited, round % 2 ? 0 : cpus);
		EXPECT_EQ(gkh_arm(&leaver), 0);
		EXPECT(gkh_is_armed(&leaver));
		EXPECT_EQ(gst_at_once(fire_some, NULL), 0);
		if (!EXPECT_EQ(atomic_read(&wins), 1) || !EXPECT_EQ(atomic_read(&late), 0) ||
		    !EXPECT(atomic_read(&calls) >= (round % 2 ? 1 : cpus) && atomic_read(&calls) <= cpus) ||
		    !EXPECT(!gkh_is_armed(&leaver)))
			break;
	}
	EXPECT_EQ(gkh_deregister(&leaver), 0);
	case_say("%u rounds, half of them with %u calls at once\n", round, cpus);
}

void gst_leave_stopped(void)
{
	unsigned int round;

	if (!EXPECT_EQ(gkh_register(&stopped), 0))
		return;
	for (round = 0; round < 8; round++) {
		forget_all();
		EXPECT_EQ(gkh_arm(&stopped), 0);
		EXPECT_EQ(gst_at_once(fire_asleep, NULL), 0);
		if (!EXPECT_EQ(atomic_read(&calls), 1) || !EXPECT_EQ(atomic_read(&wins), 1) ||
		    !EXPECT(!gkh_is_armed(&stopped)))
			break;
	}
	EXPECT_EQ(gkh_deregister(&stopped), 0);
	case_say("%u rounds\n", round);
}

void gst_leave_nop(void)
{
	unsigned long end;
	int i;

	if (!EXPECT_EQ(gkh_register(&leaver), 0))
		return;
	for (i = 0; i < 5; i++) {
		forget_all();
		EXPECT_EQ(gkh_arm(&leaver), 0);
		EXPECT(static_key_enabled(&GKHOOK(gst_a)->key));
		/* No other task passes the NOP. */
		preempt_disable();
		GKHOOK_1VAR_RO(gst_a, NULL);
		preempt_enable();
		EXPECT_EQ(atomic_read(&wins), 1);
		end = jiffies + 60 * HZ;
		while (static_key_enabled(&GKHOOK(gst_a)->key) && time_before(jiffies, end))
			usleep_range(100, 200);
		EXPECT(!static_key_enabled(&GKHOOK(gst_a)->key));
	}
	/* An exit that is never called does not change the NOP. */
	EXPECT_EQ(gkh_arm(&leaver), 0);
	EXPECT_EQ(gkh_disarm(&leaver), 0);
	EXPECT(!static_key_enabled(&GKHOOK(gst_a)->key));
	EXPECT_EQ(gkh_deregister(&leaver), 0);
}

static void fire_in_nmi(void)
{
	GKHOOK_1VAR_RO(gst_a, NULL);
}

void gst_leave_nmi(void)
{
	unsigned int round;

	if (!EXPECT_EQ(gkh_register(&leaver), 0))
		return;
	EXPECT_EQ(gst_nmi_start(fire_in_nmi), 0);
	for (round = 0; round < 50; round++) {
		unsigned long end = jiffies + 60 * HZ;

		forget_all();
		EXPECT_EQ(gkh_arm(&leaver), 0);
		while (gkh_is_armed(&leaver) && time_before(jiffies, end))
			usleep_range(50, 100);
		/* Waits for the tasks in the exit. */
		EXPECT_EQ(gkh_disarm(&leaver), 0);
		if (!EXPECT_EQ(atomic_read(&wins), 1) || !EXPECT_EQ(atomic_read(&late), 0) ||
		    !EXPECT(atomic_read(&calls) <= num_online_cpus()))
			break;
	}
	gst_nmi_stop();
	EXPECT_EQ(gkh_deregister(&leaver), 0);
}
