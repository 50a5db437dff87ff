/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _FERROTRACE_KPROBES_BUILTIN_H
#define _FERROTRACE_KPROBES_BUILTIN_H

#include <linux/types.h>

/*
 * Finds the @n-th page of instruction copies or detour buffers. Sets @detours for a page of detour
 * buffers. Returns false if there are fewer.
 */
bool ferro_exec_pool_nth(unsigned int n, unsigned long *value, bool *detours);

/* The engine's module while loaded; NULL from an RCU grace period before its unloading on. */
struct module;
extern struct module *ferro_kprobes_module;

/* Attaches the built-in engine. Returns 0 or a negative errno. */
int ferro_kprobes_start(void);

/* Enclose post handlers that a copy calls, with interrupts off. */
void ferro_kprobe_post_enter(void);
void ferro_kprobe_post_leave(void);

#endif /* _FERROTRACE_KPROBES_BUILTIN_H */
