// SPDX-License-Identifier: GPL-2.0
/*
 * What the kernel itself wants of kprobes whether or not the engine is there: the probe that is running, and
 * answers about the memory of instruction copies. The traps come to the engine through hook points.
 */
#define pr_fmt(fmt) "kprobes: " fmt

#include <linux/export.h>
#include <linux/hardirq.h>
#include <linux/init.h>
#include <linux/kdebug.h>
#include <linux/kprobes.h>
#include <linux/limits.h>
#include <linux/module.h>
#include <linux/notifier.h>
#include <linux/rcupdate.h>
#include <linux/string.h>

#include "builtin.h"

/* The probe whose handler runs on this CPU. */
DEFINE_PER_CPU(struct kprobe *, current_kprobe);
EXPORT_PER_CPU_SYMBOL_GPL(current_kprobe);
DEFINE_PER_CPU(struct kprobe_ctlblk, kprobe_ctlblk);

/* RFLAGS.IF of what was interrupted, while the copy of an instruction with a post handler runs. */
DEFINE_PER_CPU(unsigned long, ferro_kprobe_saved_if);
EXPORT_PER_CPU_SYMBOL_GPL(ferro_kprobe_saved_if);

/* Only its name is used: the pool is the one of rust/sys/mm/exec_pool.rs. */
struct kprobe_insn_cache kprobe_insn_slots = { .sym = KPROBE_INSN_PAGE_SYM };

/*
 * What runs when it is no probe's handler, but what is hit is missed all the same: what C code has put between
 * kprobe_busy_begin() and kprobe_busy_end(), a handler for faults, an access that the engine tries.
 */
struct kprobe ferro_kprobe_busy;
EXPORT_SYMBOL_GPL(ferro_kprobe_busy);

/* Have probes on this CPU count as missed. */
void kprobe_busy_begin(void)
{
	preempt_disable();
	__this_cpu_write(current_kprobe, &ferro_kprobe_busy);
}

void kprobe_busy_end(void)
{
	__this_cpu_write(current_kprobe, NULL);
	preempt_enable();
}

/* Post handlers are called as in a breakpoint, which is like an NMI. RCU watches already. */
notrace void ferro_kprobe_post_enter(void)
{
	__nmi_enter();
}
EXPORT_SYMBOL_GPL(ferro_kprobe_post_enter);
NOKPROBE_SYMBOL(ferro_kprobe_post_enter);

notrace void ferro_kprobe_post_leave(void)
{
	__nmi_exit();
}
EXPORT_SYMBOL_GPL(ferro_kprobe_post_leave);
NOKPROBE_SYMBOL(ferro_kprobe_post_leave);

int kprobe_int3_handler(struct pt_regs *regs)
{
	return 0;
}
NOKPROBE_SYMBOL(kprobe_int3_handler);

int kprobe_fault_handler(struct pt_regs *regs, int trapnr)
{
	return 0;
}
NOKPROBE_SYMBOL(kprobe_fault_handler);

int kprobe_get_kallsym(unsigned int symnum, unsigned long *value, char *type, char *sym)
{
	bool detours;

	if (!ferro_exec_pool_nth(symnum, value, &detours))
		return -ERANGE;
	strscpy(sym, detours ? KPROBE_OPTINSN_PAGE_SYM : KPROBE_INSN_PAGE_SYM, KSYM_NAME_LEN);
	*type = 't';
	return 0;
}

/* ftrace found itself broken, and changes nothing any more: functions call what they call, for ever. */
bool kprobe_ftrace_disabled;
EXPORT_SYMBOL_GPL(kprobe_ftrace_disabled);

struct module *ferro_kprobes_module;
EXPORT_SYMBOL_GPL(ferro_kprobes_module);

/* The engine stays then. If it is just going, that is too late, as for any user of ftrace. Context: any. */
void kprobe_ftrace_kill(void)
{
	struct module *module;

	kprobe_ftrace_disabled = true;
	guard(rcu)();
	module = READ_ONCE(ferro_kprobes_module);
	if (module && !try_module_get(module))
		pr_warn("ftrace gives up while the engine goes\n");
}

/*
 * The kernel dies in here. Either all of it does, as in interrupts, and in handlers at breakpoints; or the task, as in
 * handlers at ftrace sites and when functions return. Then nobody returns to what runs on this CPU, which is the task's:
 * no handler runs here any more.
 *
 * Context: the CPU and the context of the fault, interrupts off.
 */
static int died(struct notifier_block *nb, unsigned long reason, void *data)
{
	if (reason == DIE_OOPS)
		__this_cpu_write(current_kprobe, NULL);
	return NOTIFY_DONE;
}
NOKPROBE_SYMBOL(died);

/* The last one: a debugger that is asked before may have the handler go on. */
static struct notifier_block die_notifier = {
	.notifier_call = died,
	.priority = INT_MIN,
};

static int __init builtin_init(void)
{
	return register_die_notifier(&die_notifier);
}
early_initcall(builtin_init);

#if IS_BUILTIN(CONFIG_KPROBES_RUST)
/* Before the probes that the command line asks for ("kprobe_event="). */
core_initcall(ferro_kprobes_start);
#else
void kprobe_free_init_mem(void)
{
}
#endif
