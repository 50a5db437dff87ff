/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Functions for what Rust cannot call: macros and static inline functions.
 * Each does what the macro or function in its name does.
 */
#ifndef _FERROTRACE_SYS_TRACE_HELPERS_H
#define _FERROTRACE_SYS_TRACE_HELPERS_H

struct pt_regs;
struct task_struct;

/* sched.h: the thread's number; its name is copied to @comm, of TASK_COMM_LEN bytes. */
int ferro_task_info(const struct task_struct *task, char *comm);

/*
 * stacktrace.h: the calls that have led to @ip, where the current task's code in the kernel has these registers: @ip, and addresses
 * that are returned to. Context: any.
 * Return: how many, at most @size.
 */
unsigned int ferro_stack_kernel(const struct pt_regs *regs, unsigned long ip, unsigned long *to, unsigned int size);

/*
 * stacktrace.h: the same of the current thread in user space, by its frame pointers, as far as its stack is in memory. Context: any.
 * Return: how many, at most @size; 0 for a thread of the kernel.
 */
unsigned int ferro_stack_user(unsigned long *to, unsigned int size);

/* tracepoint.h */
void ferro_tracepoint_synchronize_unregister(void);

#endif /* _FERROTRACE_SYS_TRACE_HELPERS_H */
