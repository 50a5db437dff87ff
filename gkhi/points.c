// SPDX-License-Identifier: GPL-2.0
/*
 * The hook points of the kernel, as <linux/gkhi_points.h> describes them.
 */
#include <linux/cpu.h>
#include <linux/cpuhotplug.h>
#include <linux/gkhi_points.h>
#include <linux/init.h>
#include <linux/module.h>
#include <linux/notifier.h>
#include <linux/printk.h>

#if defined(CONFIG_X86_64) && !defined(CONFIG_UML)
DEFINE_GKHOOK(int3, GKH_ATOMIC, "regs");
DEFINE_GKHOOK(debug, GKH_ATOMIC, "regs, dr6");
DEFINE_GKHOOK(kernel_fault, GKH_TASK, "regs, trapnr, address");
#ifdef CONFIG_DYNAMIC_FTRACE
DEFINE_GKHOOK(trampoline_update, GKH_SLEEP, "ops");
DEFINE_GKHOOK(trampoline_free, GKH_SLEEP, "ops");
DEFINE_GKHOOK(trampoline_set, GKH_SLEEP, "change");
DEFINE_GKHOOK(trampoline_sets, GKH_SLEEP, "step");
DEFINE_GKHOOK(trampoline_data, GKH_SLEEP, "change");
#endif
#endif
#if defined(CONFIG_GCOV_BUILTIN) || (defined(CONFIG_GCOV_KERNEL) && defined(CONFIG_CC_IS_GCC))
DEFINE_GKHOOK(gcov_object, GKH_SLEEP, "info");
#endif
#if defined(CONFIG_GCOV_BUILTIN) || (defined(CONFIG_GCOV_KERNEL) && defined(CONFIG_CC_IS_CLANG))
DEFINE_GKHOOK(llvm_gcov_object, GKH_SLEEP, "writeout, flush");
#endif
DEFINE_GKHOOK(task_fork, GKH_TASK, "task, clone_flags");
DEFINE_GKHOOK(task_exit, GKH_ATOMIC, "task");
#ifdef CONFIG_UPROBES
DEFINE_GKHOOK(uprobe_done, GKH_TASK, "regs, address, executed");
#endif
DEFINE_GKHOOK(module_event, GKH_SLEEP, "module, state");
DEFINE_GKHOOK_FLAGS(cpu_prepare, GKH_SLEEP, "cpu", GKH_NO_STOP);

static struct gkhook *const points[] __initconst = {
#if defined(CONFIG_X86_64) && !defined(CONFIG_UML)
	GKHOOK(int3), GKHOOK(debug), GKHOOK(kernel_fault),
#ifdef CONFIG_DYNAMIC_FTRACE
	GKHOOK(trampoline_update), GKHOOK(trampoline_free),
	GKHOOK(trampoline_set), GKHOOK(trampoline_sets), GKHOOK(trampoline_data),
#endif
#endif
#if defined(CONFIG_GCOV_BUILTIN) || (defined(CONFIG_GCOV_KERNEL) && defined(CONFIG_CC_IS_GCC))
	GKHOOK(gcov_object),
#endif
#if defined(CONFIG_GCOV_BUILTIN) || (defined(CONFIG_GCOV_KERNEL) && defined(CONFIG_CC_IS_CLANG))
	GKHOOK(llvm_gcov_object),
#endif
	GKHOOK(task_fork), GKHOOK(task_exit),
#ifdef CONFIG_UPROBES
	GKHOOK(uprobe_done),
#endif
	GKHOOK(module_event),
	GKHOOK(cpu_prepare),
};

static int prepare_cpu(unsigned int cpu)
{
	GKHOOK_1VAR_RO_RET(int, cpu_prepare, cpu);
	return 0;
}

static int module_state(struct notifier_block *nb, unsigned long state, void *mod)
{
	GKHOOK_2VAR_RO(module_event, mod, state);
	return NOTIFY_DONE;
}

static struct notifier_block module_nb = { .notifier_call = module_state };

/* Runs before the other CPUs are brought up. */
static int __init points_init(void)
{
	int i, err;

	for (i = 0; i < ARRAY_SIZE(points); i++) {
		err = gkh_identify(points[i]);
		if (err)
			pr_err("gkhi: hook point %s: error %d\n", points[i]->name, err);
	}
	err = cpuhp_setup_state_nocalls(CPUHP_BP_PREPARE_DYN, "gkhi:prepare", prepare_cpu, NULL);
	if (err < 0)
		pr_err("gkhi: no cpu_prepare: error %d\n", err);
	err = register_module_notifier(&module_nb);
	if (err)
		pr_err("gkhi: no module_event: error %d\n", err);
	return 0;
}
early_initcall(points_init);
