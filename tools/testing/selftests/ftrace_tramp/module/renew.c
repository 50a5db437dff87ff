// SPDX-License-Identifier: GPL-2.0
/*
 * The engine is loaded and unloaded while functions are called on all CPUs: in two steps, between
 * which run.sh does that. No call is lost, and none is counted twice.
 */
#include <linux/atomic.h>
#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/sched.h>

#include "threads.h"
#include "tramp_selftest.h"

struct counting {
	struct ftrace_ops ops;
	const void *function;
	atomic_long_t calls;
};

static void count(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op, struct ftrace_regs *fregs)
{
	atomic_long_inc(&container_of(op, struct counting, ops)->calls);
}

#define COUNTING(where, how) { .ops = { .func = count, .flags = how }, .function = where }

static struct counting counting[] = {
	COUNTING(fts_a, FTRACE_OPS_FL_RECURSION),
	COUNTING(fts_b, FTRACE_OPS_FL_SAVE_REGS),
	/* two on one */
	COUNTING(fts_sum, 0),
	COUNTING(fts_sum, FTRACE_OPS_FL_RECURSION),
};

static unsigned int registered;
static struct cpu_threads threads;
static atomic_long_t calls, wrong;

static int caller(void *unused)
{
	long i, bad = 0;

	for (i = 0; !kthread_should_stop(); i++) {
		bad += fts_a(i) != i;
		bad += fts_b(i) != i;
		bad += fts_sum(i, 1, 2, 3, 4, 5) != i + 15;
		if (!(i & 255))
			usleep_range(2000, 4000);
	}
	atomic_long_add(i, &calls);
	atomic_long_add(bad, &wrong);
	return 0;
}

static void stop(void)
{
	cpu_threads_stop(&threads);
	while (registered) {
		struct counting *c = &counting[--registered];

		EXPECT_EQ(unregister_ftrace_function(&c->ops), 0);
		ftrace_free_filter(&c->ops);
	}
}

static void begin(void)
{
	unsigned int i;

	atomic_long_set(&calls, 0);
	atomic_long_set(&wrong, 0);
	for (i = 0; i < ARRAY_SIZE(counting); i++) {
		struct counting *c = &counting[i];

		atomic_long_set(&c->calls, 0);
		if (!EXPECT_EQ(ftrace_set_filter_ip(&c->ops, (unsigned long)c->function, 0, 0), 0) ||
		    !EXPECT_EQ(register_ftrace_function(&c->ops), 0)) {
			ftrace_free_filter(&c->ops);
			stop();
			return;
		}
		registered++;
	}
	if (!EXPECT_EQ(cpu_threads_start(&threads, caller, "fts_renew", -1), 0))
		stop();
}

static void end(void)
{
	unsigned int i;

	if (!EXPECT_EQ(registered, ARRAY_SIZE(counting)))
		return;
	stop();
	EXPECT(atomic_long_read(&calls) > 0);
	EXPECT_EQ(atomic_long_read(&wrong), 0);
	for (i = 0; i < ARRAY_SIZE(counting); i++)
		EXPECT_EQ(atomic_long_read(&counting[i].calls), atomic_long_read(&calls));
}

const struct test_case fts_renew_cases[] = {
	{ "renew.1_begin", begin },
	{ "renew.2_end", end },
	{ }
};
