/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the Rust half of the hook registry's mechanics needs of C, and the other way round.
 */
#ifndef _FERROTRACE_HOOK_H
#define _FERROTRACE_HOOK_H

#include <linux/gkhi.h>
#include <linux/module.h>
#include <linux/mutex.h>

/* Patch the places of a hook. They take effect everywhere before this returns. */
void ferro_hook_activate(struct gkhook *hook, bool active);

/* How many places of a hook there are, in the kernel and in loaded modules; -1 where nobody knows. */
int ferro_hook_sites(const struct gkhook *hook);
/* kernel/module/main.c has it: the list of modules, which RCU protects. */
extern struct list_head modules;

/* The name of the module that an address is in, in MODULE_NAME_LEN bytes; empty if in none. */
void ferro_module_name_of(unsigned long addr, char *name);
bool ferro_within_module(unsigned long addr, const struct module *mod);
/* Whether code can be called there as long as its module is loaded: not data, and not initialisation. */
bool ferro_is_lasting_text(unsigned long addr);
/* Whether an address is in the kernel's image or in a module. */
bool ferro_is_image(unsigned long addr);

/*
 * A dispatch that may sleep is between these two. ferro_hook_quiesce() waits for all dispatches that have begun
 * before: with preemption off, in tasks that are preempted, and those that sleep.
 */
int ferro_hook_read_lock(void);
void ferro_hook_read_unlock(int idx);
void ferro_hook_quiesce(bool atomic, bool task, bool sleep);

/* stop_machine.h: run @fn with interrupts off while all other CPUs are stopped. */
int ferro_stop_machine(int (*fn)(void *), void *data);

/* percpu.h */
void ferro_this_cpu_add(unsigned long __percpu *words, unsigned long value);

/* Have ferro_hook_tidy() called soon, in process context. Context: any, NMI included. */
void ferro_hook_tidy_later(void);

/* The registry's locks, the outer one for files in debugfs; and where debugfs is there. */
extern struct mutex ferro_hook_files_lock;
extern struct mutex ferro_hook_lock;
void ferro_hook_debugfs(void);

/* The registry's: takes what has disarmed itself out of its hooks. */
void ferro_hook_tidy(void);
/* The registry's: a module goes, with its hooks and exits. */
void ferro_hook_module_going(const struct module *mod);

#endif /* _FERROTRACE_HOOK_H */
