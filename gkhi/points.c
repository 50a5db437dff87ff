// SPDX-License-Identifier: GPL-2.0
/*
 * Hook points that need no patch of the code around them, or for which a kernel without patches has
 * a substitute; <linux/gkhi_points.h> describes them.
 */
#include <linux/cpu.h>
#include <linux/cpuhotplug.h>
#include <linux/gkhi_points.h>
#include <linux/init.h>
#include <linux/module.h>
#include <linux/notifier.h>
#include <linux/printk.h>

#include "../rust/sys/code/initcall.h"
#include "points.h"

DEFINE_GKHOOK(task_fork, GKH_TASK, "task, clone_flags");
DEFINE_GKHOOK(task_exit, GKH_ATOMIC, "task");
#ifdef CONFIG_UPROBES
DEFINE_GKHOOK(uprobe_done, GKH_TASK, "regs, address, executed");
#endif
DEFINE_GKHOOK(module_event, GKH_SLEEP, "module, state");
DEFINE_GKHOOK_FLAGS(cpu_prepare, GKH_SLEEP, "cpu", GKH_NO_STOP);

static struct gkhook *const points[] __initconst = {
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

void __init gkh_identify_points(struct gkhook *const *points, unsigned int count)
{
	unsigned int i;
	int err;

	for (i = 0; i < count; i++) {
		err = gkh_identify(points[i]);
		if (err)
			pr_err("gkhi: hook point %s: error %d\n", points[i]->name, err);
	}
}

/* The dynamic state of prepare_cpu(). */
static int cpu_state;

/* Runs before the other CPUs are brought up. */
static int __init points_init(void)
{
	int err;

	gkh_identify_points(points, ARRAY_SIZE(points));
	cpu_state = cpuhp_setup_state_nocalls(CPUHP_BP_PREPARE_DYN, "gkhi:prepare", prepare_cpu, NULL);
	if (cpu_state < 0)
		pr_err("gkhi: no cpu_prepare: error %d\n", cpu_state);
	err = register_module_notifier(&module_nb);
	if (err)
		pr_err("gkhi: no module_event: error %d\n", err);
	return 0;
}
ferro_early_initcall(points_init);

static void __exit points_exit(void)
{
	unregister_module_notifier(&module_nb);
	if (cpu_state > 0)
		cpuhp_remove_state_nocalls(cpu_state);
}
ferro_exitcall(points_exit);
