/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _FERROTRACE_KPROBES_BUILTIN_H
#define _FERROTRACE_KPROBES_BUILTIN_H

#include <linux/types.h>

/* The @n-th page of instruction copies or detours, and whether it is one for detours; false if there are fewer. */
bool ferro_exec_pool_nth(unsigned int n, unsigned long *value, bool *detours);

/* The engine, if it is a module that is there; a grace period of RCU before it goes it is NULL. */
struct module;
extern struct module *ferro_kprobes_module;

/* Attaches the engine that is built in. 0 or a negative errno. */
int ferro_kprobes_start(void);

/* Around post handlers that a copy calls, with interrupts off. */
void ferro_kprobe_post_enter(void);
void ferro_kprobe_post_leave(void);

#endif /* _FERROTRACE_KPROBES_BUILTIN_H */
