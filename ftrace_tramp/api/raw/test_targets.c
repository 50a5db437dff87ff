// SPDX-License-Identifier: GPL-2.0
/*
 * Functions for the tests to trace, and a thread that keeps calling one.
 */
#include <linux/compiler.h>
#include <linux/err.h>
#include <linux/kthread.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>

#include "test_targets.h"

noinline __noclone int ftrace_api_next(int value)
{
	barrier();
	return value + 1;
}

noinline __noclone int ftrace_api_twice(int value)
{
	barrier();
	return value * 2;
}

/* Calls one of the others. */
noinline __noclone int ftrace_api_outer(int value)
{
	int next = ftrace_api_next(value);

	/* Prevents a tail call. */
	OPTIMIZER_HIDE_VAR(next);
	return next;
}

noinline __noclone long ftrace_api_eight(int a, u8 b, bool c, const char *d, s64 e, u16 f, long g,
					 long h)
{
	barrier();
	return a + b + c + *d + e + f + g + h;
}

/* Not traced. */
noinline notrace int ftrace_api_hidden(int value)
{
	barrier();
	return value - 1;
}

static struct task_struct *callers[2];

static int keep_calling(void *unused)
{
	while (!kthread_should_stop()) {
		ftrace_api_next(1);
		/*
		 * cond_resched() alone does nothing in a preemptible kernel, but others wait for
		 * RCU tasks.
		 */
		cond_resched_tasks_rcu_qs();
	}
	return 0;
}

int ftrace_api_start_calling(void)
{
	int i;

	if (callers[0])
		return -EBUSY;
	for (i = 0; i < ARRAY_SIZE(callers); i++) {
		struct task_struct *task = kthread_run(keep_calling, NULL, "ftrace_api/%d", i);

		if (IS_ERR(task)) {
			ftrace_api_stop_calling();
			return PTR_ERR(task);
		}
		callers[i] = task;
	}
	return 0;
}

void ftrace_api_stop_calling(void)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(callers); i++) {
		if (callers[i])
			kthread_stop(callers[i]);
		callers[i] = NULL;
	}
}
