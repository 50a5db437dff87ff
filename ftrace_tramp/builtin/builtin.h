/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the trampoline engine needs of the kernel and no module can have: the code that trampolines are copied from, and what
 * ftrace and the mitigations want of a copy.
 */
#ifndef _FERROTRACE_TRAMP_BUILTIN_H
#define _FERROTRACE_TRAMP_BUILTIN_H

#ifdef CONFIG_FTRACE_TRAMP_BUILTIN

#include <linux/gkhi_points.h>
#include <linux/types.h>

struct ftrace_ops;
struct mutex;

/* Labels in arch/x86/kernel/ftrace_64.S, which no header of the kernel has. */
extern char ftrace_caller_op_ptr[], ftrace_caller_end[];
extern char ftrace_regs_caller_op_ptr[], ftrace_regs_caller_jmp[], ftrace_regs_caller_end[];

/* For the trampolines that there are. */
extern struct mutex ferro_tramp_mutex;

/* Attaches the engine that is built in. 0 or a negative errno. */
int ferro_tramp_start(void);

/* Labels of ftrace_caller or ftrace_regs_caller; rust/core/tramp/template.rs says what they are. @direct is 0 if there is none. */
struct ferro_tramp_labels {
	unsigned long start;
	unsigned long load_ops;
	unsigned long call;
	unsigned long direct;
	unsigned long end;
};

void ferro_tramp_labels(bool saves_regs, struct ferro_tramp_labels *labels);
/* The function that a trampoline of the ops calls: its own, or one that asks first whether to. Context: ftrace_lock held. */
unsigned long ferro_tramp_function(struct ftrace_ops *ops);
/* The same for when ftrace has given up: one that does nothing, if the ops has just gone, or come. Context: ftrace_lock held. */
unsigned long ferro_tramp_last_function(struct ftrace_ops *ops);
/* The thunk that a return at @at has to jump to; 0 if it may be a return. */
unsigned long ferro_tramp_return_thunk(void *at);

/*
 * What stands for a set of ops, with a callback that calls those of @ops in this order, each with its own ops. NULL without
 * memory. Context: ftrace_lock held.
 */
struct ftrace_ops *ferro_tramp_set_new(struct ftrace_ops **ops, unsigned int count, bool saves_regs);
void ferro_tramp_set_free(struct ftrace_ops *set);
/* Has it call ferro_tramp_function() of the ops at @at. Context: ftrace_lock held. */
void ferro_tramp_set_aim(struct ftrace_ops *set, unsigned int at);
/* Has it call ferro_tramp_last_function() of each. Context: ftrace_lock held. */
void ferro_tramp_set_give_up(struct ftrace_ops *set);

/*
 * The ops that trace a function, but for one, in the order in which the list function calls them: the first @most of them, and
 * how many there are. Context: ftrace_lock held.
 */
unsigned int ferro_tramp_ops_of(unsigned long ip, const struct ftrace_ops *but, struct ftrace_ops **ops,
				unsigned int most);
/* Whether the list function calls an ops before another one. Context: ftrace_lock held. */
bool ferro_tramp_is_before(const struct ftrace_ops *ops, const struct ftrace_ops *other);

/* Which functions have which data: its owner, and ferro_tramp_each_data(). Outside of ftrace_lock. */
extern struct mutex ferro_tramp_data_mutex;
/*
 * For each struct ftrace_data_ops that is registered, with ftrace_lock held: as if all its functions had just been attached, or
 * the ops released. Context: sleeps; ferro_tramp_data_mutex held.
 */
void ferro_tramp_each_data(enum ftrace_data_event event, void (*visit)(struct ftrace_data_change *change));

/* Calls the function with ftrace_lock held. */
void ferro_tramp_locked(void (*function)(void));
/* Waits until nobody is in a trampoline that no function has called since. */
void ferro_tramp_wait(void);
/* Calls the function soon, in a work item; once if it has not begun. */
void ferro_tramp_call_later(void (*function)(void));
/* It is not called any more, and has returned. */
void ferro_tramp_call_stop(void);

#endif /* CONFIG_FTRACE_TRAMP_BUILTIN */

#endif /* _FERROTRACE_TRAMP_BUILTIN_H */
