// SPDX-License-Identifier: GPL-2.0
/*
 * Work items for callers that must not sleep: the C half of deferred_drop.rs.
 *
 * Contexts: deferring: any, NMI and probe handlers included; otherwise process. Locks: none.
 */
#include <linux/atomic.h>
#include <linux/build_bug.h>
#include <linux/export.h>
#include <linux/irq_work.h>
#include <linux/irqflags.h>
#include <linux/kprobes.h>
#include <linux/llist.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/preempt.h>
#include <linux/rcupdate.h>
#include <linux/workqueue.h>

#include "../code/module_going.h"
#include "deferred_drop.h"

/* Lock of the list in tracepoint.rs. */
DEFINE_MUTEX(ferro_tracepoints_lock);

/* deferred_drop.rs relies on this size. */
static_assert(sizeof(struct ferro_deferred) == 2 * sizeof(long));

static LLIST_HEAD(list);

/* Number of deferred items that are not finished. An item that runs is in no list. */
static atomic_t pending = ATOMIC_INIT(0);

static void run_all(struct work_struct *work)
{
	struct ferro_deferred *deferred, *next;

	llist_for_each_entry_safe(deferred, next, llist_reverse_order(llist_del_all(&list)), node) {
		deferred->run(deferred);
		atomic_dec(&pending);
	}
}

static DECLARE_WORK(work, run_all);

/* Work cannot be queued in an NMI, nor with the lock of its queue held. */
static void queue(struct irq_work *unused)
{
	queue_work(system_dfl_wq, &work);
}

static DEFINE_IRQ_WORK(irq_work, queue);

/*
 * Without CONFIG_PREEMPT_COUNT, preemption that is off cannot be seen. At least probe handlers are
 * recognised.
 */
bool ferro_may_sleep(void)
{
#if defined(CONFIG_KPROBES) && !defined(CONFIG_PREEMPT_COUNT)
	if (raw_cpu_read(current_kprobe))
		return false;
#endif
	return !preempt_count() && !irqs_disabled() && !rcu_preempt_depth();
}
EXPORT_SYMBOL_GPL(ferro_may_sleep);

void ferro_defer(struct ferro_deferred *deferred, void (*run)(struct ferro_deferred *deferred))
{
	deferred->run = run;
	/* A CPU that finds the item in the list also finds its work queued, now or soon. */
	guard(preempt)();
	atomic_inc(&pending);
	llist_add(&deferred->node, &list);
	irq_work_queue(&irq_work);
}
EXPORT_SYMBOL_GPL(ferro_defer);

/* A running item may defer more items. */
static void wait_deferred(void)
{
	do {
		irq_work_sync(&irq_work);
		flush_work(&work);
	} while (atomic_read(&pending));
}

/* The deferred items of the module finish before its forgotten objects are looked for. */
static void going_first(struct module *mod)
{
	wait_deferred();
}
DEFINE_MODULE_GOING(ferro_deferred_first, going_first, INT_MAX);

/* No CPU calls the module's code, so it defers nothing more. */
static void going_last(struct module *mod)
{
	ferro_tracepoints_going(mod);
	wait_deferred();
}
DEFINE_MODULE_GOING(ferro_deferred_last, going_last, INT_MIN);
