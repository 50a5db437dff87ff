// SPDX-License-Identifier: GPL-2.0
/*
 * Resets of a channel while a reader on another CPU reports consumed sub-buffers.
 */
#include <linux/cpumask.h>
#include <linux/err.h>
#include <linux/kthread.h>
#include <linux/preempt.h>
#include <linux/sched.h>

#include "relay_selftest.h"

static int report(void *cpu)
{
	while (!kthread_should_stop()) {
		relay_subbufs_consumed(rst.chan, (unsigned long)cpu, 1);
		cond_resched();
	}
	return 0;
}

/*
 * resetstorm n=: resets after some sub-buffers have been written; how often the empty buffer was
 * full then
 */
int rst_reset_storm(const struct ctl_args *a)
{
	struct task_struct *reader;
	unsigned int cpu, other;
	u64 n = 1, full = 0, i;
	int ret = ctl_num(a, "n", &n);

	if (ret)
		return ret;
	migrate_disable();
	cpu = smp_processor_id();
	other = cpumask_any_but(cpu_online_mask, cpu);
	if (other >= nr_cpu_ids)
		other = cpu;
	reader = kthread_create(report, (void *)(unsigned long)cpu, "rst_reader");
	if (IS_ERR(reader)) {
		migrate_enable();
		return PTR_ERR(reader);
	}
	kthread_bind(reader, other);
	wake_up_process(reader);
	for (i = 0; i < n; i++) {
		int k;

		for (k = 0; k < 3; k++)
			relay_write(rst.chan, rst.cpu[cpu].scratch[RST_TASK], rst.chan->subbuf_size);
		relay_reset(rst.chan);
		full += relay_buf_full(rst_buf(cpu));
		cond_resched();
	}
	migrate_enable();
	kthread_stop(reader);
	rst.result = full;
	return 0;
}
