/* SPDX-License-Identifier: GPL-2.0 */
/* Measures the cost of a call of a function, and of the work of a task. */
#ifndef _BENCH_MEASURE_H
#define _BENCH_MEASURE_H

#include <linux/irqflags.h>
#include <linux/ktime.h>
#include <linux/minmax.h>
#include <linux/sched.h>

/* How many calls are measured at once. */
#define MEASURE_LOOPS	2000

typedef long (*measured_t)(long);

static notrace inline u64 measure_calls_once(measured_t function)
{
	unsigned long flags;
	u64 begin, end;
	int i;

	local_irq_save(flags);
	begin = ktime_get_ns();
	for (i = 0; i < MEASURE_LOOPS; i++)
		function(i);
	end = ktime_get_ns();
	local_irq_restore(flags);
	return end - begin;
}

/* The best time of MEASURE_LOOPS calls. */
static notrace inline u64 measure_calls(measured_t function, unsigned int rounds)
{
	u64 least = U64_MAX;

	while (rounds--) {
		least = min(least, measure_calls_once(function));
		cond_resched();
	}
	return least;
}

/* The CPU time of this task, which is brought up to date when it lets others run. */
static inline u64 measure_work(void)
{
	schedule();
	return current->se.sum_exec_runtime;
}

#endif /* _BENCH_MEASURE_H */
