// SPDX-License-Identifier: GPL-2.0
/* A thread on each CPU that hits the probe again and again. */
#include <linux/cpumask.h>
#include <linux/jiffies.h>
#include <linux/kthread.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>

#include "kprobes_selftest.h"

static struct task_struct *threads[NR_CPUS];
static atomic_long_t calls, wrong;

bool kst_wait(atomic_long_t *counter, long above)
{
	unsigned long end = jiffies + 60 * HZ;

	while (atomic_long_read(counter) <= above) {
		if (time_after(jiffies, end))
			return false;
		schedule_timeout_interruptible(1);
	}
	return true;
}

bool kst_storm_pass(long i)
{
	return kst_call_bytes(i) == i && kst_call_endbr(i) == i + 9 && kst_target(2) == 7;
}

static int caller(void *data)
{
	bool (*pass)(long) = data;
	long i = 0;

	while (!kthread_should_stop()) {
		i++;
		if (!pass(i))
			atomic_long_inc(&wrong);
		atomic_long_inc(&calls);
		if (i % 64 == 0) {
			cond_resched_tasks_rcu_qs();
			/*
			 * Where the CPUs of a guest take turns, this is the turn of the next one.
			 */
			cpu_relax();
		}
		if (i % 512 == 0)
			schedule_timeout_interruptible(1);
	}
	return 0;
}

void kst_storm_begin(bool (*pass)(long i))
{
	unsigned int cpu;

	atomic_long_set(&calls, 0);
	atomic_long_set(&wrong, 0);
	for_each_online_cpu(cpu) {
		struct task_struct *t = kthread_create_on_cpu(caller, pass, cpu, "kst_storm/%u");

		if (!EXPECT(!IS_ERR(t)))
			continue;
		threads[cpu] = t;
		wake_up_process(t);
	}
}

long kst_storm_end(void)
{
	unsigned int cpu;

	for_each_possible_cpu(cpu) {
		if (threads[cpu])
			kthread_stop(threads[cpu]);
		threads[cpu] = NULL;
	}
	EXPECT_EQ(atomic_long_read(&wrong), 0);
	return atomic_long_read(&calls);
}
