// SPDX-License-Identifier: GPL-2.0
/*
 * The C half of rust/sys/hook/: places, modules and waiting.
 */
#include <linux/cpu.h>
#include <linux/init.h>
#include <linux/irq_work.h>
#include <linux/jump_label.h>
#include <linux/kallsyms.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/notifier.h>
#include <linux/rcupdate.h>
#include <linux/srcu.h>
#include <linux/stop_machine.h>
#include <linux/workqueue.h>
#include <asm/sections.h>

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

void ferro_hook_activate(struct gkhook *hook, bool active)
{
	if (active)
		static_key_enable(&hook->key.key);
	else
		static_key_disable(&hook->key.key);
}

#ifdef CONFIG_JUMP_LABEL
/* Places in initialisation code are gone by the time that anybody asks. */
static int sites_between(const struct gkhook *hook, const struct jump_entry *entry,
			 const struct jump_entry *end)
{
	int sites = 0;

	for (; entry < end; entry++)
		sites += jump_entry_key(entry) == &hook->key.key && !jump_entry_is_init(entry);
	return sites;
}

int ferro_hook_sites(const struct gkhook *hook)
{
	const struct module *mod;
	int sites;

	sites = sites_between(hook, __start___jump_table, __stop___jump_table);
	guard(rcu)();
	list_for_each_entry_rcu(mod, &modules, list)
		if (mod->state != MODULE_STATE_UNFORMED)
			sites += sites_between(hook, mod->jump_entries,
					       mod->jump_entries + mod->num_jump_entries);
	return sites;
}
#else
int ferro_hook_sites(const struct gkhook *hook)
{
	return -1;
}
#endif

void gkh_check_context(const struct gkhook *hook)
{
	WARN_ONCE(!rcu_is_watching(), "gkhi: %s fires where RCU does not watch\n", hook->name);
	WARN_ONCE(hook->context == GKH_ATOMIC && preemptible(),
		  "gkhi: %s fires where it can be preempted\n", hook->name);
	if (hook->context == GKH_SLEEP)
		might_sleep();
}
EXPORT_SYMBOL_GPL(gkh_check_context);
NOKPROBE_SYMBOL(gkh_check_context);

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

bool ferro_is_lasting_text(unsigned long addr)
{
	const struct module *mod;
	bool lasting;

	if (core_kernel_text(addr))
		return !is_kernel_inittext(addr);
	rcu_read_lock();
	mod = __module_text_address(addr);
	lasting = mod && !within_module_init(addr, mod);
	rcu_read_unlock();
	return lasting;
}

bool ferro_is_image(unsigned long addr)
{
	guard(rcu)();
	return (addr >= (unsigned long)_stext && addr < (unsigned long)_end) || __module_address(addr);
}

/*
 * Dispatches of hooks that may sleep. The others need no lock, since what they must not outlive is kept
 * until every CPU and every preempted task has been somewhere else.
 */
DEFINE_STATIC_SRCU(sleeping);

int ferro_hook_read_lock(void)
{
	return srcu_read_lock(&sleeping);
}

void ferro_hook_read_unlock(int idx)
{
	srcu_read_unlock(&sleeping, idx);
}

void ferro_hook_quiesce(bool atomic, bool task, bool sleep)
{
	/* Every hook is entered without the lock. */
	if (task || sleep)
		synchronize_rcu_tasks();
	if (atomic || task || sleep)
		synchronize_rcu();
	if (sleep)
		synchronize_srcu(&sleeping);
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

static void tidy_work(struct work_struct *work)
{
	ferro_hook_tidy();
}
static DECLARE_WORK(tidy, tidy_work);

static void tidy_irq(struct irq_work *work)
{
	schedule_work(&tidy);
}
static DEFINE_IRQ_WORK(tidy_from_nmi, tidy_irq);

void ferro_hook_tidy_later(void)
{
	irq_work_queue(&tidy_from_nmi);
}

static int __init debugfs_ready(void)
{
	ferro_hook_debugfs();
	return 0;
}
fs_initcall(debugfs_ready);

static int module_event(struct notifier_block *nb, unsigned long state, void *mod)
{
	if (state == MODULE_STATE_GOING)
		ferro_hook_module_going(mod);
	return NOTIFY_DONE;
}

static struct notifier_block module_nb = {
	.notifier_call = module_event,
	/* Before jump labels forget the places, and before all others who may come by a hook. */
	.priority = INT_MAX,
};

static int __init hook_init(void)
{
	return register_module_notifier(&module_nb);
}
early_initcall(hook_init);
