/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Initcalls and exitcalls of code that is built in, or in ferrotrace_core on a kernel without our
 * patches.
 */
#ifndef _FERROTRACE_SYS_INITCALL_H
#define _FERROTRACE_SYS_INITCALL_H

#include <linux/init.h>

#ifdef CONFIG_FERROTRACE_STOCK
/* stock/core.c calls them when the module is loaded. */
#define ferro_early_initcall(fn)		\
	int __init ferro_initcall_##fn(void);	\
	int __init ferro_initcall_##fn(void)	\
	{					\
		return fn();			\
	}
#define ferro_fs_initcall(fn) ferro_early_initcall(fn)
/* stock/core.c calls them when the module is unloaded. */
#define ferro_exitcall(fn)			\
	void ferro_exitcall_##fn(void);		\
	void ferro_exitcall_##fn(void)		\
	{					\
		fn();				\
	}
#else
#define ferro_early_initcall(fn) early_initcall(fn)
#define ferro_fs_initcall(fn) fs_initcall(fn)
#define ferro_exitcall(fn) __exitcall(fn)
#endif

#endif /* _FERROTRACE_SYS_INITCALL_H */
