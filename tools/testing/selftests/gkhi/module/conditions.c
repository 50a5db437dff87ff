// SPDX-License-Identifier: GPL-2.0
/*
 * Conditions under which exits are called.
 */
#include <linux/cpumask.h>
#include <linux/irqflags.h>
#include <linux/ktime.h>
#include <linux/percpu.h>
#include <linux/processor.h>
#include <linux/sched.h>

#include "gkhi_selftest.h"

struct seen {
	int calls;
	bool irqs_off;
	unsigned int moved;
};

static DEFINE_PER_CPU(unsigned long, turns);
/* Turns of the observing task: there is one at a time. */
static DEFINE_PER_CPU(unsigned long, turns_before);

static void turn(void *unused)
{
	raw_cpu_inc(turns);
}

/* How many other CPUs did anything for a while. */
static unsigned int others_moved(void)
{
	unsigned int cpu, moved = 0, relaxed = 0;
	u64 end;

	for_each_online_cpu(cpu)
		per_cpu(turns_before, cpu) = READ_ONCE(per_cpu(turns, cpu));
	end = ktime_get_ns() + 20 * NSEC_PER_MSEC;
	/* where the CPUs of a guest take turns, each has had some; the host may have had other things to do */
	while (ktime_get_ns() < end || relaxed++ < 20)
		cpu_relax();
	for_each_online_cpu(cpu)
		if (cpu != raw_smp_processor_id())
			moved += READ_ONCE(per_cpu(turns, cpu)) != per_cpu(turns_before, cpu);
	return moved;
}

static GKH_EXIT_0VAR(see_irqs, self)
{
	struct seen *seen = self->data;

	seen->calls++;
	seen->irqs_off = irqs_disabled();
	return GKH_CONTINUE;
}

static GKH_EXIT_0VAR(see_cpus, self)
{
	struct seen *seen = self->data;
	u64 end = ktime_get_ns() + 60 * NSEC_PER_SEC;

	see_irqs(self, 0, 0, 0, 0, 0);
	/* Threads that may migrate do so sooner or later. */
	do {
		seen->moved = others_moved();
	} while (!seen->moved && !irqs_disabled() && ktime_get_ns() < end);
	return GKH_CONTINUE;
}

/* Between two exits without the condition. */
static void try_condition(const char *hook, gkh_fn_t exit, unsigned int flags, struct seen seen[3])
{
	struct gkh_record records[3] = {
		{ .hook = hook, .name = "before", .exit = exit, .data = &seen[0], .flags = GKH_FIRST },
		{ .hook = hook, .name = "with", .exit = exit, .data = &seen[1], .flags = flags },
		{ .hook = hook, .name = "after", .exit = exit, .data = &seen[2], .flags = GKH_LAST },
	};
	long answer;
	int i;

	for (i = 0; i < 3; i++) {
		EXPECT_EQ(gkh_register(&records[i]), 0);
		records[i].next = i < 2 ? &records[i + 1] : NULL;
	}
	EXPECT_EQ(gkh_arm(&records[0]), 0);
	EXPECT_EQ(gst_fire(hook, &answer), 0);
	EXPECT(!irqs_disabled());
	EXPECT_EQ(gkh_disarm(&records[0]), 0);
	/* alone: there is no list */
	records[1].next = NULL;
	EXPECT_EQ(gkh_arm(&records[1]), 0);
	EXPECT_EQ(gst_fire(hook, &answer), 0);
	EXPECT(!irqs_disabled());
	records[1].next = &records[2];
	EXPECT_EQ(gkh_deregister(&records[0]), 0);
	EXPECT_EQ(seen[0].calls, 1);
	EXPECT_EQ(seen[1].calls, 2);
	EXPECT_EQ(seen[2].calls, 1);
	EXPECT(!seen[0].irqs_off);
	EXPECT(seen[1].irqs_off);
	EXPECT(!seen[2].irqs_off);
}

#ifdef CONFIG_DEBUG_ATOMIC_SLEEP
static int non_block_count;

static GKH_EXIT_0VAR(see_non_block, self)
{
	non_block_count = current->non_block_count;
	return GKH_CONTINUE;
}

/* The kernel would complain about an exit that sleeps, where exits must not. */
void gst_no_sleep(void)
{
	static const char * const hooks[] = { "gst_ro", "gst_sleep" };
	long answer;
	int i;

	for (i = 0; i < ARRAY_SIZE(hooks); i++) {
		struct gkh_record record = { .hook = hooks[i], .name = "see", .exit = see_non_block };

		non_block_count = -1;
		EXPECT_EQ(gkh_register(&record), 0);
		EXPECT_EQ(gkh_arm(&record), 0);
		EXPECT_EQ(gst_fire(hooks[i], &answer), 0);
		EXPECT_EQ(gkh_deregister(&record), 0);
		EXPECT_EQ(non_block_count, i == 0);
		EXPECT_EQ(current->non_block_count, 0);
	}
}
#else
void gst_no_sleep(void)
{
	case_skip("the kernel does not check it");
}
#endif

void gst_irqs_off(void)
{
	static const char * const hooks[] = { "gst_ro", "gst_sleep", "gst_a" };
	int i;

	for (i = 0; i < ARRAY_SIZE(hooks); i++) {
		struct seen seen[3] = {};

		try_condition(hooks[i], see_irqs, GKH_IRQS_OFF, seen);
	}
}

void gst_cpus_stopped(void)
{
	static const unsigned int flags[] = { GKH_CPUS_STOPPED, GKH_CPUS_STOPPED | GKH_IRQS_OFF };
	struct gst_crew *crew;
	int i;

	if (num_online_cpus() < 2)
		return case_skip("one CPU");
	crew = gst_hire(turn, NULL);
	for (i = 0; i < ARRAY_SIZE(flags); i++) {
		struct seen seen[3] = {};

		try_condition("gst_sleep", see_cpus, flags[i], seen);
		EXPECT_EQ(seen[1].moved, 0);
		/* they do move otherwise */
		EXPECT(seen[0].moved > 0);
		EXPECT(seen[2].moved > 0);
	}
	gst_dismiss(crew);
}

void gst_cannot_stop(void)
{
	static const char * const hooks[] = {
		"gst_zero", "gst_ro", "gst_a", "gst_no_stop", "cpu_prepare", "int3", "task_fork", "task_exit",
	};
	int i;

	for (i = 0; i < ARRAY_SIZE(hooks); i++) {
		struct gkh_record record = {
			.hook = hooks[i], .name = "stopper", .exit = see_irqs, .flags = GKH_CPUS_STOPPED,
		};

		EXPECT_EQ(gkh_register(&record), -EOPNOTSUPP);
		EXPECT_EQ(record.id, 0);
	}
}
