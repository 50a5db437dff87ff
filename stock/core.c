// SPDX-License-Identifier: GPL-2.0
/* The module ferrotrace_core: the parts of Ferrotrace that are built into a patched kernel. */
#include <generated/utsversion.h>
#include <linux/init.h>
#include <linux/module.h>
#include <linux/rcupdate.h>
#include <linux/rcupdate_wait.h>
#include <linux/string.h>
#include <linux/utsname.h>

#include "core.h"

int ferro_initcall_died_init(void);
int ferro_initcall_debugfs_ready(void);
int ferro_initcall_points_init(void);
int ferro_initcall_ferro_hook_going_init(void);
int ferro_initcall_ferro_deferred_first_init(void);
int ferro_initcall_ferro_deferred_last_init(void);
int ferro_initcall_ferro_debugfs_going_init(void);
int ferro_initcall_ferro_klog_going_init(void);

void ferro_exitcall_died_exit(void);
void ferro_exitcall_registry_exit(void);
void ferro_exitcall_points_exit(void);
void ferro_exitcall_ferro_hook_going_exit(void);
void ferro_exitcall_ferro_deferred_first_exit(void);
void ferro_exitcall_ferro_deferred_last_exit(void);
void ferro_exitcall_ferro_debugfs_going_exit(void);
void ferro_exitcall_ferro_klog_going_exit(void);

/* In the order of a patched kernel's boot. */
static int (*const initcalls[])(void) __initconst = {
	ferro_initcall_ferro_debugfs_going_init,
	ferro_initcall_died_init,
	ferro_initcall_ferro_hook_going_init,
	ferro_initcall_ferro_deferred_first_init,
	ferro_initcall_ferro_deferred_last_init,
	ferro_initcall_points_init,
	ferro_initcall_ferro_klog_going_init,
	ferro_initcall_debugfs_ready,
};

/*
 * The first two unregister the callbacks that enter our code. The others free what modules and
 * ferrotrace_core have registered, in the priority order of the module notifiers.
 */
static void (*const exitcalls[])(void) = {
	ferro_exitcall_points_exit,
	ferro_exitcall_died_exit,
	ferro_exitcall_ferro_deferred_first_exit,
	ferro_exitcall_ferro_hook_going_exit,
	ferro_exitcall_ferro_klog_going_exit,
	ferro_exitcall_registry_exit,
	ferro_exitcall_ferro_debugfs_going_exit,
	ferro_exitcall_ferro_deferred_last_exit,
};

/* Calls all exitcalls. Each is safe even if its initcall failed. */
static void undo_initcalls(void)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(exitcalls); i++)
		exitcalls[i]();
	/* A preempted task may still run our code, and RCU callbacks in it may be pending. */
	synchronize_rcu_tasks();
	rcu_barrier();
}

static int __init core_init(void)
{
	int i, err;

	/* A kernel of another build can have the same release name, and other structures. */
	if (strcmp(init_utsname()->version, UTS_VERSION)) {
		pr_err("ferrotrace: built for the kernel \"%s\", but the running kernel is \"%s\"\n", UTS_VERSION,
		       init_utsname()->version);
		return -ENOEXEC;
	}
	err = ferro_stock_kernel_functions_init();
	if (err)
		return err;
	for (i = 0; i < ARRAY_SIZE(initcalls); i++) {
		err = initcalls[i]();
		if (err)
			pr_err("ferrotrace: %ps failed: error %d\n", initcalls[i], err);
	}
	err = ferro_stock_hook_points_init();
	if (err)
		undo_initcalls();
	return err;
}
module_init(core_init);

static void __exit core_exit(void)
{
	ferro_stock_hook_points_exit();
	undo_initcalls();
}
module_exit(core_exit);

MODULE_LICENSE("GPL");
MODULE_AUTHOR("Ferrotrace maintainers");
MODULE_DESCRIPTION("Ferrotrace core, for kernels without Ferrotrace's patches");
/* For "ferrotrace doctor". */
MODULE_INFO(kernel, UTS_VERSION);
