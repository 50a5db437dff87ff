/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The C half of tracer.rs. Not part of the bindings: that declares these itself.
 */
#ifndef _FERROTRACE_FTRACE_FILTER_H
#define _FERROTRACE_FTRACE_FILTER_H

struct ftrace_ops;
struct ftrace_regs;
struct mutex;

/* For the list of tracers. */
extern struct mutex ferro_ftrace_api_lock;

/* How many functions the filter of @ops has, which nobody changes meanwhile; 0 are all functions for ftrace. */
unsigned long ferro_ftrace_filter_count(struct ftrace_ops *ops);

/* What a struct ftrace_data_ops of tracer_set.rs calls, with a struct ferro_ftrace_node: guards what that calls as ftrace does others. */
void ferro_ftrace_call_node(unsigned long ip, unsigned long parent_ip, void *node, struct ftrace_regs *fregs);

#endif /* _FERROTRACE_FTRACE_FILTER_H */
