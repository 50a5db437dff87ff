/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Threads of a client module, one on each of some CPUs, that are waited for, and stopped later.
 */
#ifndef _SELFTEST_THREADS_H
#define _SELFTEST_THREADS_H

#include <linux/completion.h>
#include <linux/cpu.h>
#include <linux/cpumask.h>
#include <linux/err.h>
#include <linux/kthread.h>
#include <linux/sched.h>
#include <linux/types.h>

struct cpu_threads {
	struct task_struct *task[NR_CPUS];
	struct completion done[NR_CPUS];
};

/* Not running yet. */
static inline int cpu_thread_create(struct cpu_threads *t, unsigned int cpu, int (*thread)(void *),
				    const char *name)
{
	struct task_struct *task = kthread_create_on_cpu(thread, (void *)(uintptr_t)cpu, cpu, name);

	if (IS_ERR(task))
		return PTR_ERR(task);
	init_completion(&t->done[cpu]);
	t->task[cpu] = task;
	return 0;
}

/* Returns the result of the thread of a CPU, after it has been stopped. */
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

/*
 * On each CPU that is online, but @except: the CPU is the thread's argument.
 * All of them, or none and an error.
 */
static inline int cpu_threads_start(struct cpu_threads *t, int (*thread)(void *), const char *name,
				    u64 except)
{
	unsigned int cpu;
	int ret = 0;

	cpus_read_lock();
	for_each_online_cpu(cpu) {
		if (cpu == except)
			continue;
		ret = cpu_thread_create(t, cpu, thread, name);
		if (ret)
			break;
	}
	for_each_possible_cpu(cpu)
		if (t->task[cpu])
			wake_up_process(t->task[cpu]);
	cpus_read_unlock();
	if (ret)
		cpu_threads_stop(t);
	return ret;
}

#endif
