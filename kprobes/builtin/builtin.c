// SPDX-License-Identifier: GPL-2.0
/*
 * Kprobes state that the kernel uses with or without the engine: the running probe, and queries
 * about the memory of instruction copies. The traps reach the engine through hook points.
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

/* Probe with a running handler on this CPU. */
DEFINE_PER_CPU(struct kprobe *, current_kprobe);
EXPORT_PER_CPU_SYMBOL_GPL(current_kprobe);
DEFINE_PER_CPU(struct kprobe_ctlblk, kprobe_ctlblk);

/* RFLAGS.IF of the interrupted code, while the copy of an instruction with a post handler runs. */
DEFINE_PER_CPU(unsigned long, ferro_kprobe_saved_if);
EXPORT_PER_CPU_SYMBOL_GPL(ferro_kprobe_saved_if);

/* Only its name is used: the pool is in rust/sys/mm/exec_pool.rs. */
struct kprobe_insn_cache kprobe_insn_slots = { .sym = KPROBE_INSN_PAGE_SYM };

/*
 * Value of current_kprobe that makes hits count as missed without a running handler: between
 * kprobe_busy_begin() and kprobe_busy_end() of C code, in a fault handler, and in a trial access by
 * the engine.
 */
struct kprobe ferro_kprobe_busy;
EXPORT_SYMBOL_GPL(ferro_kprobe_busy);

/* Makes probes on this CPU count as missed. */
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

/* Post handlers are called as in a breakpoint, which is like an NMI. RCU is watching already. */
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

/*
 * ftrace has found a defect and changes no more code: functions keep calling their current targets
 * forever.
 */
bool kprobe_ftrace_disabled;
EXPORT_SYMBOL_GPL(kprobe_ftrace_disabled);

struct module *ferro_kprobes_module;
EXPORT_SYMBOL_GPL(ferro_kprobes_module);

/*
 * Pins the engine. If the engine is already being unloaded, this is too late, as for any user of
 * ftrace. Context: any.
 */
void kprobe_ftrace_kill(void)
{
	struct module *module;

	kprobe_ftrace_disabled = true;
	guard(rcu)();
	module = READ_ONCE(ferro_kprobes_module);
	if (module && !try_module_get(module))
		pr_warn("ftrace is disabled while the engine is being unloaded\n");
}

/*
 * An oops. Either the whole kernel dies, as in interrupts and in breakpoint handlers. Or only the
 * task dies, as in handlers at ftrace sites and at function returns. Then the code that runs on
 * this CPU, which is the task's, never continues: no handler runs here.
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

/* Lowest priority: a debugger called before this may let the handler continue. */
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
/* Before the probes of the command line ("kprobe_event="). */
core_initcall(ferro_kprobes_start);
#else
void kprobe_free_init_mem(void)
{
}
#endif
