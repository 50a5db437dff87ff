// SPDX-License-Identifier: GPL-2.0
/*
 * Work item that removes hit breakpoints.
 *
 * Contexts: queueing any, NMI included; the rest process.
 */
#include <linux/atomic.h>
#include <linux/cpumask.h>
#include <linux/irq_work.h>
#include <linux/smp.h>
#include <linux/workqueue.h>

#include "worker.h"

static bool is_on;
static atomic_t is_urgent;

static void run(struct work_struct *work)
{
	if (READ_ONCE(is_on))
		ferro_coverage_work();
}

static DECLARE_DELAYED_WORK(work, run);

/* Work cannot be queued in an NMI. A tick is long enough to collect hits of a batch. */
static void queue_from_irq(struct irq_work *unused)
{
	if (atomic_xchg(&is_urgent, 0))
		mod_delayed_work(system_dfl_wq, &work, 0);
	else
		queue_delayed_work(system_dfl_wq, &work, 1);
}

static DEFINE_IRQ_WORK(irq_work, queue_from_irq);

void ferro_coverage_worker_begin(void)
{
	WRITE_ONCE(is_on, true);
}

notrace bool ferro_coverage_worker_ask(bool now)
{
	/*
	 * On a CPU that dies, nothing executes the work after the flush of its queue. That queue would
	 * stay non-empty, so that no later work would raise an interrupt there. A CPU that comes up
	 * has no APIC yet.
	 */
	if (!cpu_online(raw_smp_processor_id()))
		return false;
	if (now)
		atomic_set(&is_urgent, 1);
	irq_work_queue(&irq_work);
	return true;
}

void ferro_coverage_worker_end(void)
{
	WRITE_ONCE(is_on, false);
	irq_work_sync(&irq_work);
	cancel_delayed_work_sync(&work);
}
