/* SPDX-License-Identifier: GPL-2.0 */
/* Module notifiers for C halves that clean up after modules. */
#ifndef _FERROTRACE_SYS_MODULE_GOING_H
#define _FERROTRACE_SYS_MODULE_GOING_H

#include <linux/module.h>
#include <linux/notifier.h>

#include "initcall.h"

/*
 * Registers @function for each unload of a module, from boot on. Functions with a greater @order
 * run first. @name is for the initcall, and unique in the kernel.
 */
#define DEFINE_MODULE_GOING(name, function, order)						\
	static int name##_event(struct notifier_block *nb, unsigned long state, void *mod)	\
	{											\
		if (state == MODULE_STATE_GOING)						\
			function(mod);								\
		return NOTIFY_DONE;								\
	}											\
	static struct notifier_block name##_nb = {						\
		.notifier_call = name##_event,							\
		.priority = order,								\
	};											\
	static int __init name##_init(void)							\
	{											\
		return register_module_notifier(&name##_nb);					\
	}											\
	ferro_early_initcall(name##_init)							\
	static void __exit name##_exit(void)							\
	{											\
		function(THIS_MODULE);								\
		unregister_module_notifier(&name##_nb);						\
	}											\
	ferro_exitcall(name##_exit)

#endif /* _FERROTRACE_SYS_MODULE_GOING_H */
