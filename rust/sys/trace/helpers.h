/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Functions for what Rust cannot call: macros and static inline functions.
 * Each does what the macro or function in its name does.
 */
#ifndef _FERROTRACE_SYS_TRACE_HELPERS_H
#define _FERROTRACE_SYS_TRACE_HELPERS_H

struct task_struct;

/* sched.h: the thread's number; its name is copied to @comm, of TASK_COMM_LEN bytes. */
int ferro_task_info(const struct task_struct *task, char *comm);

/* tracepoint.h */
void ferro_tracepoint_synchronize_unregister(void);

#endif /* _FERROTRACE_SYS_TRACE_HELPERS_H */
