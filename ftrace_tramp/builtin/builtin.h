/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Kernel symbols for the trampoline engine that modules cannot use: the code that trampolines are
 * copied from, and the requirements of ftrace and of the mitigations on a copy.
 */
#ifndef _FERROTRACE_TRAMP_BUILTIN_H
#define _FERROTRACE_TRAMP_BUILTIN_H

#ifdef CONFIG_FTRACE_TRAMP_BUILTIN

#include <linux/gkhi_points.h>
#include <linux/types.h>

struct ftrace_ops;
struct mutex;

/* Labels in arch/x86/kernel/ftrace_64.S; no kernel header declares them. */
extern char ftrace_caller_op_ptr[], ftrace_caller_end[];
extern char ftrace_regs_caller_op_ptr[], ftrace_regs_caller_jmp[], ftrace_regs_caller_end[];

/* Protects the registry of trampolines. */
extern struct mutex ferro_tramp_mutex;

/* Attaches the built-in engine. Returns 0 or a negative errno. */
int ferro_tramp_start(void);

/*
 * Labels of ftrace_caller or ftrace_regs_caller, explained in ftrace_tramp/core/template.rs. @direct
 * is 0 if there is none.
 */
struct ferro_tramp_labels {
	unsigned long start;
	unsigned long load_ops;
	unsigned long call;
	unsigned long direct;
	unsigned long end;
};

void ferro_tramp_labels(bool saves_regs, struct ferro_tramp_labels *labels);
/*
 * Returns the function that a trampoline of the ops calls: its own, or a wrapper that tests first.
 * Context: ftrace_lock held.
 */
unsigned long ferro_tramp_function(struct ftrace_ops *ops);
/*
 * Returns the function to call after ftrace has failed: a no-op if the ops is being unregistered or
 * registered. Context: ftrace_lock held.
 */
unsigned long ferro_tramp_last_function(struct ftrace_ops *ops);
/* Returns the thunk that a return at @at has to jump to; 0 for a plain return. */
unsigned long ferro_tramp_return_thunk(void *at);

/*
 * Makes a placeholder ops for a set. Its callback calls those of @ops in this order, each with its
 * own ops. Returns NULL without memory. Context: ftrace_lock held.
 */
struct ftrace_ops *ferro_tramp_set_new(struct ftrace_ops **ops, unsigned int count,
				       bool saves_regs);
void ferro_tramp_set_free(struct ftrace_ops *set);
/*
 * Retargets the entry @at of a set to ferro_tramp_function() of its ops. Context: ftrace_lock held.
 */
void ferro_tramp_set_retarget(struct ftrace_ops *set, unsigned int at);
/*
 * Retargets all entries of a set to ferro_tramp_last_function() of their ops. Context: ftrace_lock
 * held.
 */
void ferro_tramp_set_handle_failure(struct ftrace_ops *set);

/*
 * Finds the ops that trace a function, except @but, in the call order of the list function. Stores
 * the first @most of them and returns the number of all. Context: ftrace_lock held.
 */
unsigned int ferro_tramp_ops_of(unsigned long ip, const struct ftrace_ops *but,
				struct ftrace_ops **ops, unsigned int most);
/* Returns true if the list function calls an ops before another one. Context: ftrace_lock held. */
bool ferro_tramp_is_before(const struct ftrace_ops *ops, const struct ftrace_ops *other);

/*
 * Protects functions' data: for its owner and for ferro_tramp_each_data(). Outside of ftrace_lock.
 */
extern struct mutex ferro_tramp_data_mutex;
/*
 * Visits each registered struct ftrace_data_ops with ftrace_lock held, as if all its functions had
 * just been attached, or the ops released. Context: sleeps; ferro_tramp_data_mutex held.
 */
void ferro_tramp_each_data(enum ftrace_data_event event,
			   void (*visit)(struct ftrace_data_change *change));

/* Calls the function with ftrace_lock held. */
void ferro_tramp_locked(void (*function)(void));
/* Waits until no task is in a trampoline that no site calls. */
void ferro_tramp_wait(void);
/* Schedules a work item that calls the function; calls before it starts are merged. */
void ferro_tramp_schedule_reclaim(void (*function)(void));
/* Cancels the work item, or waits for it. */
void ferro_tramp_cancel_reclaim(void);

#endif /* CONFIG_FTRACE_TRAMP_BUILTIN */

#endif /* _FERROTRACE_TRAMP_BUILTIN_H */
