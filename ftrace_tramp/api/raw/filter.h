/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The C half of tracer.rs. Not part of the bindings: that declares these itself.
 */
#ifndef _FERROTRACE_FTRACE_FILTER_H
#define _FERROTRACE_FTRACE_FILTER_H

struct ftrace_ops;
struct mutex;

/* For the list of tracers. */
extern struct mutex ferro_ftrace_api_lock;

/* How many functions the filter of @ops has, which nobody changes meanwhile; 0 are all functions for ftrace. */
unsigned long ferro_ftrace_filter_count(struct ftrace_ops *ops);

#endif /* _FERROTRACE_FTRACE_FILTER_H */
