// SPDX-License-Identifier: GPL-2.0
/*
 * Work item for requests of hits that have to sleep. The one of deferred_drop.c is unsuitable:
 * modules wait until it has nothing left, and programs may queue it again and again.
 *
 * Contexts: queueing any, NMI included; the rest process.
 */
#include <linux/errno.h>
#include <linux/irq_work.h>
#include <linux/workqueue.h>

#include "bindings.h"

static void (*run)(const void *context);
static const void *context;

/* Without a handler, a request has no effect. */
static void run_handler(struct work_struct *work)
{
	void (*f)(const void *context) = READ_ONCE(run);

	if (f)
		f(context);
}

static DECLARE_WORK(work, run_handler);

/* Work cannot be queued in an NMI. */
static void queue_from_irq(struct irq_work *unused)
{
	queue_work(system_dfl_wq, &work);
}

static DEFINE_IRQ_WORK(irq_work, queue_from_irq);

int ferro_dprobes_worker_begin(void (*f)(const void *context), const void *with)
{
	if (run)
		return -EBUSY;
	context = with;
	WRITE_ONCE(run, f);
	return 0;
}

notrace void ferro_dprobes_worker_ask(void)
{
	irq_work_queue(&irq_work);
}

void ferro_dprobes_worker_wait(void)
{
	irq_work_sync(&irq_work);
	flush_work(&work);
}

void ferro_dprobes_worker_end(void)
{
	/* A work item that has read the handler is waited for, others find none. */
	WRITE_ONCE(run, NULL);
	ferro_dprobes_worker_wait();
}
