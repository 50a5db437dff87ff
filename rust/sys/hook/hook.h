/* SPDX-License-Identifier: GPL-2.0 */
/* Interface between the Rust and the C half of the hook registry's mechanism. */
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

/* Number of sites of a hook, in the kernel and in loaded modules; -1 if it is unknown. */
int ferro_hook_sites(const struct gkhook *hook);
/* Defined in kernel/module/main.c: the list of modules, which RCU protects. */
extern struct list_head modules;

/* Returns false if enough refusals have been logged for now. */
bool ferro_hook_may_tell(void);

/*
 * Copies the name of the module that contains an address, in MODULE_NAME_LEN bytes; empty if there
 * is none.
 */
void ferro_module_name_of(unsigned long addr, char *name);
bool ferro_within_module(unsigned long addr, const struct module *mod);
/*
 * Returns true if an address is in a module that is being unloaded, even before its exit function
 * runs.
 */
bool ferro_is_going(unsigned long addr);
/*
 * True for code that can be called as long as its module is loaded: not for data or initialisation
 * code.
 */
bool ferro_is_lasting_text(unsigned long addr);
/* True if an address is in the kernel's image or in a module. */
bool ferro_is_image(unsigned long addr);

/* Allocates the readers for the dispatches of one hook that may sleep. NULL: no memory. */
struct srcu_struct *ferro_hook_readers_new(void);
void ferro_hook_readers_free(struct srcu_struct *readers);

/*
 * These two enclose a dispatch that may sleep. @reader is on the stack of the task, and exists
 * until the second call. The death of the task in an Oops makes the second call, too.
 */
struct ferro_hook_reader {
	unsigned long mark;
	struct srcu_struct *readers;
	int idx;
};
void ferro_hook_read_lock(struct srcu_struct *readers, struct ferro_hook_reader *reader);
void ferro_hook_read_unlock(struct ferro_hook_reader *reader);

/*
 * Waits for dispatches that have begun before: those with preemption off, and if @task, those in
 * preempted tasks.
 */
void ferro_hook_quiesce(bool task);
/* Waits for the sleeping dispatches of one hook. */
void ferro_hook_readers_wait(struct srcu_struct *readers);

/*
 * True if the caller may wait for dispatches: it may sleep, and is in no dispatch that may sleep.
 * Context: any.
 */
bool ferro_hook_can_wait(void);

/* stop_machine.h: runs @fn with interrupts off while all other CPUs are stopped. */
int ferro_stop_machine(int (*fn)(void *), void *data);

/* percpu.h */
void ferro_this_cpu_add(unsigned long __percpu *words, unsigned long value);

/*
 * Schedules ferro_hook_remove_self_disarmed(), which runs soon in process context. Context: any,
 * NMI included.
 */
void ferro_hook_remove_self_disarmed_later(void);

/*
 * A release deferred to a context that can wait: ferro_hook_run_release() is called with it.
 * Context: any, NMI included.
 */
struct ferro_hook_release {
	struct llist_node node;
	struct work_struct work;
};
void ferro_hook_defer(struct ferro_hook_release *release);
/* Schedules ferro_hook_reap(), which runs after a delay. */
void ferro_hook_reap_later(void);

/*
 * The registry's locks, the outer one for files in debugfs; and the notification that debugfs is
 * initialised.
 */
extern struct mutex ferro_hook_files_lock;
extern struct mutex ferro_hook_lock;
void ferro_hook_debugfs(void);
/* Frees the registry, after the last module with hooks or exits. */
void ferro_hook_free_registry(void);

/* In the registry: removes exits that have disarmed themselves from their hooks. */
void ferro_hook_remove_self_disarmed(void);
/* In the registry: does a deferred release. */
void ferro_hook_run_release(struct ferro_hook_release *release);
/* In the registry: drops exits that no CPU executes. */
void ferro_hook_reap(void);
/*
 * In the registry: returns true if a call of an exit of the module has not returned. Context:
 * process.
 */
bool ferro_hook_is_called_of(const struct module *mod);
/* In the registry: removes the hooks and exits of a module that is being unloaded. */
void ferro_hook_module_going(const struct module *mod);

#endif /* _FERROTRACE_HOOK_H */
