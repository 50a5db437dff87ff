/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the Rust half of the hook registry's mechanics needs of C, and the other way round.
 */
#ifndef _FERROTRACE_HOOK_H
#define _FERROTRACE_HOOK_H

#include <linux/gkhi.h>
#include <linux/llist.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/srcu.h>
#include <linux/workqueue.h>

/* Patch the sites of a hook. They take effect everywhere before this returns. */
void ferro_hook_activate(struct gkhook *hook, bool active);

/* How many sites of a hook there are, in the kernel and in loaded modules; -1 where nobody knows. */
int ferro_hook_sites(const struct gkhook *hook);
/* kernel/module/main.c has it: the list of modules, which RCU protects. */
extern struct list_head modules;

/* Returns false if enough refusals have been logged for now. */
bool ferro_hook_may_tell(void);

/* The name of the module that an address is in, in MODULE_NAME_LEN bytes; empty if in none. */
void ferro_module_name_of(unsigned long addr, char *name);
bool ferro_within_module(unsigned long addr, const struct module *mod);
/*
 * Returns true if an address is in a module that is being unloaded, from before its exit function
 * on.
 */
bool ferro_is_going(unsigned long addr);
/* Whether code can be called there as long as its module is loaded: not data, and not initialisation. */
bool ferro_is_lasting_text(unsigned long addr);
/* Whether an address is in the kernel's image or in a module. */
bool ferro_is_image(unsigned long addr);

/* The dispatches of one hook that may sleep, for whoever waits for them. NULL: no memory. */
struct srcu_struct *ferro_hook_readers_new(void);
void ferro_hook_readers_free(struct srcu_struct *readers);

/*
 * A dispatch that may sleep is between these two. @reader is on the stack of the task, and stays
 * there until the second, which the death of the task in an Oops calls as well.
 */
struct ferro_hook_reader {
	unsigned long mark;
	struct srcu_struct *readers;
	int idx;
};
void ferro_hook_read_lock(struct srcu_struct *readers, struct ferro_hook_reader *reader);
void ferro_hook_read_unlock(struct ferro_hook_reader *reader);

/* Wait for the dispatches that have begun before: with preemption off, and if @task in tasks that are preempted. */
void ferro_hook_quiesce(bool task);
/* Wait for those of one hook that sleep. */
void ferro_hook_readers_wait(struct srcu_struct *readers);

/* Whether the caller may wait for dispatches: it may sleep, and is in none that may sleep. Context: any. */
bool ferro_hook_can_wait(void);

/* stop_machine.h: run @fn with interrupts off while all other CPUs are stopped. */
int ferro_stop_machine(int (*fn)(void *), void *data);

/* percpu.h */
void ferro_this_cpu_add(unsigned long __percpu *words, unsigned long value);

/* Have ferro_hook_tidy() called soon, in process context. Context: any, NMI included. */
void ferro_hook_tidy_later(void);

/* What is left to do where one can wait: ferro_hook_late() is called with @note. Context: any, NMI included. */
struct ferro_hook_note {
	struct llist_node node;
	struct work_struct work;
};
void ferro_hook_defer(struct ferro_hook_note *note);
/* Have ferro_hook_settle() called after a while. */
void ferro_hook_settle_later(void);

/* The registry's locks, the outer one for files in debugfs; and where debugfs is there. */
extern struct mutex ferro_hook_files_lock;
extern struct mutex ferro_hook_lock;
void ferro_hook_debugfs(void);

/* The registry's: takes what has disarmed itself out of its hooks. */
void ferro_hook_tidy(void);
/* The registry's: does what was deferred. */
void ferro_hook_late(struct ferro_hook_note *note);
/* The registry's: drops what nobody executes any more. */
void ferro_hook_settle(void);
/*
 * The registry's: returns true if a call of an exit of the module has not returned. Context:
 * process.
 */
bool ferro_hook_is_called_of(const struct module *mod);
/* The registry's: a module goes, with its hooks and exits. */
void ferro_hook_module_going(const struct module *mod);

#endif /* _FERROTRACE_HOOK_H */
