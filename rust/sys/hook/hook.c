// SPDX-License-Identifier: GPL-2.0
/* C half of rust/sys/hook/: sites, modules and waiting. */
#include <linux/align.h>
#include <linux/atomic.h>
#include <linux/container_of.h>
#include <linux/cpu.h>
#include <linux/delay.h>
#include <linux/init.h>
#include <linux/irq_work.h>
#include <linux/kallsyms.h>
#include <linux/kdebug.h>
#include <linux/kernel.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/ratelimit.h>
#include <linux/rcupdate.h>
#include <linux/sched/task_stack.h>
#include <linux/slab.h>
#include <linux/srcu.h>
#include <linux/stop_machine.h>
#include <linux/workqueue.h>

#include "../code/initcall.h"
#include "../code/module_going.h"
#include "../sync/stack_mark.h"
#include "hook.h"

DEFINE_MUTEX(ferro_hook_files_lock);
DEFINE_MUTEX(ferro_hook_lock);

static DEFINE_PER_CPU(unsigned long, idle_hits);

static __kprobes GKH_EXIT_0VAR(idle, self)
{
	return GKH_CONTINUE;
}

const struct gkh_exit gkh_idle = {
	.fn = idle,
	.hits = &idle_hits,
};
EXPORT_SYMBOL_GPL(gkh_idle);

void gkh_check_enter(const struct gkhook *hook)
{
	WARN_ONCE(!rcu_is_watching(), "gkhi: %s fires where RCU does not watch\n", hook->name);
	WARN_ONCE(hook->context == GKH_ATOMIC && preemptible(),
		  "gkhi: %s fires where it can be preempted\n", hook->name);
	if (hook->context == GKH_SLEEP)
		might_sleep();
	/*
	 * A sleeping exit does not delay a grace period, so the exit could be freed. In other
	 * contexts preemption is off.
	 */
	if (hook->context == GKH_TASK)
		non_block_start();
}
EXPORT_SYMBOL_GPL(gkh_check_enter);
NOKPROBE_SYMBOL(gkh_check_enter);

void gkh_check_leave(const struct gkhook *hook)
{
	if (hook->context == GKH_TASK)
		non_block_end();
}
EXPORT_SYMBOL_GPL(gkh_check_leave);
NOKPROBE_SYMBOL(gkh_check_leave);

bool ferro_hook_may_tell(void)
{
	static DEFINE_RATELIMIT_STATE(limit, DEFAULT_RATELIMIT_INTERVAL, DEFAULT_RATELIMIT_BURST);

	return __ratelimit(&limit);
}

void ferro_module_name_of(unsigned long addr, char *name)
{
	const struct module *mod;

	rcu_read_lock();
	mod = __module_address(addr);
	strscpy(name, mod ? mod->name : "", MODULE_NAME_LEN);
	rcu_read_unlock();
}

bool ferro_within_module(unsigned long addr, const struct module *mod)
{
	return within_module(addr, mod);
}

bool ferro_is_going(unsigned long addr)
{
	const struct module *mod;

	guard(rcu)();
	mod = __module_address(addr);
	return mod && READ_ONCE(mod->state) == MODULE_STATE_GOING;
}
EXPORT_SYMBOL_GPL(ferro_is_going);

/*
 * Readers of one hook. Each is a lockdep class, because an exit of one hook may hold a lock while
 * another hook's readers are waited for.
 */
struct readers {
	struct srcu_struct srcu;
	struct lock_class_key key;
};

/*
 * Dispatches that may sleep hold a lock, one a hook: a waiter for one hook does not wait for
 * others. The other dispatches need no lock: the data that they use is kept until every CPU and
 * every preempted task has passed a quiescent state.
 */
struct srcu_struct *ferro_hook_readers_new(void)
{
	struct readers *readers = kzalloc(sizeof(*readers), GFP_KERNEL);

	if (!readers)
		return NULL;
	lockdep_register_key(&readers->key);
	if (!__init_srcu_struct(&readers->srcu, "ferro_hook_readers", &readers->key))
		return &readers->srcu;
	lockdep_unregister_key(&readers->key);
	kfree(readers);
	return NULL;
}

void ferro_hook_readers_free(struct srcu_struct *srcu)
{
	struct readers *readers = container_of(srcu, struct readers, srcu);

	cleanup_srcu_struct(srcu);
	lockdep_unregister_key(&readers->key);
	kfree(readers);
}

void ferro_hook_readers_wait(struct srcu_struct *readers)
{
	synchronize_srcu(readers);
}

void ferro_hook_read_lock(struct srcu_struct *readers, struct ferro_hook_reader *reader)
{
	reader->readers = readers;
	reader->idx = srcu_read_lock(readers);
	barrier();
	WRITE_ONCE(reader->mark, ferro_stack_mark(&reader->mark, &gkh_idle));
}

void ferro_hook_read_unlock(struct ferro_hook_reader *reader)
{
	WRITE_ONCE(reader->mark, 0);
	barrier();
	srcu_read_unlock(reader->readers, reader->idx);
}

bool ferro_hook_can_wait(void)
{
	return !in_atomic() && !irqs_disabled() && !rcu_preempt_depth() &&
	       !ferro_next_stack_mark(NULL, &gkh_idle);
}

/* Modules in whose code a task has died. Each is counted; written with die()'s lock held. */
static struct module *dead_in[8];

static void note_dead_in(struct module *mod)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(dead_in); i++)
		if (READ_ONCE(dead_in[i]) == mod)
			return;
	for (i = 0; i < ARRAY_SIZE(dead_in); i++)
		if (!READ_ONCE(dead_in[i]) && try_module_get(mod)) {
			WRITE_ONCE(dead_in[i], mod);
			return;
		}
}

/* A call that has not returned never will: its code is kept, and rmmod reports that. */
static void dead_work(struct work_struct *work)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(dead_in); i++) {
		struct module *mod = xchg(&dead_in[i], NULL);

		if (mod && ferro_hook_is_called_of(mod))
			pr_err("gkhi: a task has died in an exit of %s, which cannot be unloaded\n",
			       mod->name);
		else if (mod)
			module_put(mod);
	}
}
static DECLARE_WORK(dead, dead_work);

static void dead_irq(struct irq_work *work)
{
	schedule_work(&dead);
}
static DEFINE_IRQ_WORK(dead_from_die, dead_irq);

/*
 * The current task dies and leaves its stack as it is. Waiters for its sleeping dispatches must not
 * wait for it. For the other dispatches, this finds the code to which the task would have returned.
 */
static int died(struct notifier_block *nb, unsigned long event, void *data)
{
	const struct die_args *args = data;
	const unsigned long *end = task_stack_page(current) + THREAD_SIZE;
	const unsigned long *mark = NULL, *word;

	if (event != DIE_OOPS || in_interrupt() || !args->regs)
		return NOTIFY_DONE;
	/* An unaligned stack pointer would make the last read reach the guard page. */
	word = PTR_ALIGN((const unsigned long *)args->regs->sp, sizeof(*word));
	if (!object_is_on_stack(word) || !object_is_on_stack(&mark))
		return NOTIFY_DONE;
	while ((mark = ferro_next_stack_mark(mark, &gkh_idle)))
		ferro_hook_read_unlock(container_of(mark, struct ferro_hook_reader, mark));
	guard(rcu)();
	for (; word < end; word++) {
		struct module *mod = __module_text_address(READ_ONCE_NOCHECK(*word));

		if (mod)
			note_dead_in(mod);
	}
	irq_work_queue(&dead_from_die);
	return NOTIFY_DONE;
}

static struct notifier_block died_nb = { .notifier_call = died };

static int __init died_init(void)
{
	return register_die_notifier(&died_nb);
}
ferro_early_initcall(died_init);

static void __exit died_exit(void)
{
	unregister_die_notifier(&died_nb);
	irq_work_sync(&dead_from_die);
	flush_work(&dead);
}
ferro_exitcall(died_exit);

void ferro_hook_quiesce(bool task)
{
	if (task)
		synchronize_rcu_tasks();
	synchronize_rcu();
}

int ferro_stop_machine(int (*fn)(void *), void *data)
{
	return stop_machine(fn, data, NULL);
}

void ferro_this_cpu_add(unsigned long __percpu *words, unsigned long value)
{
	this_cpu_add(*words, value);
}
EXPORT_SYMBOL_GPL(ferro_this_cpu_add);
NOKPROBE_SYMBOL(ferro_this_cpu_add);

static void self_disarmed_work_fn(struct work_struct *work)
{
	ferro_hook_remove_self_disarmed();
}
static DECLARE_WORK(self_disarmed_work, self_disarmed_work_fn);

static void self_disarmed_irq(struct irq_work *work)
{
	schedule_work(&self_disarmed_work);
}
static DEFINE_IRQ_WORK(self_disarmed_irq_work, self_disarmed_irq);

void ferro_hook_remove_self_disarmed_later(void)
{
	irq_work_queue(&self_disarmed_irq_work);
}

/* Number of deferred releases that have not finished. */
static atomic_t pending_releases = ATOMIC_INIT(0);

/* Each release has its own work item, so that a long wait of one does not delay others. */
static void release_work(struct work_struct *work)
{
	ferro_hook_run_release(container_of(work, struct ferro_hook_release, work));
	atomic_dec(&pending_releases);
}

static LLIST_HEAD(releases);

static void releases_irq(struct irq_work *work)
{
	struct ferro_hook_release *release, *next;

	llist_for_each_entry_safe(release, next, llist_reverse_order(llist_del_all(&releases)), node) {
		INIT_WORK(&release->work, release_work);
		queue_work(system_dfl_wq, &release->work);
	}
}
static DEFINE_IRQ_WORK(releases_irq_work, releases_irq);

void ferro_hook_defer(struct ferro_hook_release *release)
{
	atomic_inc(&pending_releases);
	llist_add(&release->node, &releases);
	irq_work_queue(&releases_irq_work);
}

static void reap_work_fn(struct work_struct *work)
{
	ferro_hook_reap();
}
static DECLARE_DELAYED_WORK(reap_work, reap_work_fn);

void ferro_hook_reap_later(void)
{
	queue_delayed_work(system_dfl_wq, &reap_work, msecs_to_jiffies(20));
}

static int __init debugfs_ready(void)
{
	ferro_hook_debugfs();
	return 0;
}
ferro_fs_initcall(debugfs_ready);

/* All modules with exits have been unloaded. Work items for their exits may still be queued, or end. */
static void __exit registry_exit(void)
{
	irq_work_sync(&self_disarmed_irq_work);
	flush_work(&self_disarmed_work);
	/* The reaper may defer a release, and a release may queue the reaper. */
	cancel_delayed_work_sync(&reap_work);
	while (atomic_read(&pending_releases))
		fsleep(10000);
	irq_work_sync(&releases_irq_work);
	cancel_delayed_work_sync(&reap_work);
	ferro_hook_free_registry();
}
ferro_exitcall(registry_exit);

/*
 * Runs before jump labels forget the sites, and before all other notifiers that may fire a hook;
 * after the deferred drops (deferred_drop.c).
 */
DEFINE_MODULE_GOING(ferro_hook_going, ferro_hook_module_going, INT_MAX - 1);
