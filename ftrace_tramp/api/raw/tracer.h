/* SPDX-License-Identifier: GPL-2.0 */
/* C half of tracer.rs. Not part of the bindings: tracer.rs declares these itself. */
#ifndef _FERROTRACE_FTRACE_TRACER_H
#define _FERROTRACE_FTRACE_TRACER_H

struct ftrace_ops;
struct ftrace_regs;
struct mutex;

/* Protects the list of tracers. */
extern struct mutex ferro_ftrace_api_lock;

/*
 * Returns the number of functions in the filter of @ops, which must not change during the call; 0
 * means all functions to ftrace.
 */
unsigned long ferro_ftrace_filter_count(struct ftrace_ops *ops);

/*
 * Callback of the struct ftrace_data_ops of tracer_set.rs, with a struct ferro_ftrace_node. Guards
 * the node's call against recursion and RCU not watching, as ftrace does for others.
 */
void ferro_ftrace_call_node(unsigned long ip, unsigned long parent_ip, void *node,
			    struct ftrace_regs *fregs);

#endif /* _FERROTRACE_FTRACE_TRACER_H */
