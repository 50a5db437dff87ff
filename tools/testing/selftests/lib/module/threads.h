/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Threads of a client module, one on each of some CPUs, that are waited for, and stopped later.
 */
#ifndef _SELFTEST_THREADS_H
#define _SELFTEST_THREADS_H

#include <linux/completion.h>
#include <linux/cpumask.h>
#include <linux/err.h>
#include <linux/kthread.h>
#include <linux/sched.h>

struct cpu_threads {
	struct task_struct *task[NR_CPUS];
	struct completion done[NR_CPUS];
};

/* Not running yet: cpu_threads_wake() */
static inline int cpu_thread_create(struct cpu_threads *t, unsigned int cpu, int (*thread)(void *), void *arg,
				    const char *name)
{
	struct task_struct *task = kthread_create_on_cpu(thread, arg, cpu, name);

	if (IS_ERR(task))
		return PTR_ERR(task);
	init_completion(&t->done[cpu]);
	t->task[cpu] = task;
	return 0;
}

static inline void cpu_threads_wake(struct cpu_threads *t)
{
	unsigned int cpu;

	for_each_possible_cpu(cpu)
		if (t->task[cpu])
			wake_up_process(t->task[cpu]);
}

/* What the thread of a CPU returns in the end, by when it has been stopped. */
static inline int cpu_thread_ends(struct cpu_threads *t, unsigned int cpu)
{
	complete_all(&t->done[cpu]);
	set_current_state(TASK_IDLE);
	while (!kthread_should_stop()) {
		schedule();
		set_current_state(TASK_IDLE);
	}
	__set_current_state(TASK_RUNNING);
	return 0;
}

/* Until all of them have ended; 0 or -ERESTARTSYS. */
static inline int cpu_threads_wait(struct cpu_threads *t)
{
	unsigned int cpu;
	int ret = 0;

	for_each_possible_cpu(cpu)
		if (!ret && t->task[cpu])
			ret = wait_for_completion_interruptible(&t->done[cpu]);
	return ret;
}

static inline void cpu_threads_stop(struct cpu_threads *t)
{
	unsigned int cpu;

	for_each_possible_cpu(cpu) {
		if (t->task[cpu])
			kthread_stop(t->task[cpu]);
		t->task[cpu] = NULL;
	}
}

#endif
