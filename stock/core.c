// SPDX-License-Identifier: GPL-2.0
/*
 * The module ferrotrace_core: on a kernel without our patches, all that a patched kernel has in its
 * image.
 */
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
 * First what calls our code from outside, then what is left of modules and of this one, in the order
 * of the notifiers.
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

/* The initcalls have no error that leaves one of them undone. */
static void undo_initcalls(void)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(exitcalls); i++)
		exitcalls[i]();
	/* Callbacks of RCU are in our code, and a preempted task may be in it. */
	synchronize_rcu_tasks();
	rcu_barrier();
}

static int __init core_init(void)
{
	int i, err;

	/* A kernel of another build can have the same release name, and other structures. */
	if (strcmp(init_utsname()->version, UTS_VERSION)) {
		pr_err("ferrotrace: built for the kernel \"%s\", and this is \"%s\"\n", UTS_VERSION,
		       init_utsname()->version);
		return -ENOEXEC;
	}
	err = ferro_stock_kernel_functions_init();
	if (err)
		return err;
	for (i = 0; i < ARRAY_SIZE(initcalls); i++) {
		err = initcalls[i]();
		if (err)
			pr_err("ferrotrace: initialisation: error %d\n", err);
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
MODULE_DESCRIPTION("Ferrotrace: common parts, for a kernel without its patches");
