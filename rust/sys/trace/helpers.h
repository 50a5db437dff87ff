/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Wrappers for macros and static inline functions, which Rust cannot call. Each is named after the
 * macro or function that it wraps.
 */
#ifndef _FERROTRACE_SYS_TRACE_HELPERS_H
#define _FERROTRACE_SYS_TRACE_HELPERS_H

struct pt_regs;
struct task_struct;

/* sched.h: the thread's number; its name is copied to @comm, of TASK_COMM_LEN bytes. */
int ferro_task_info(const struct task_struct *task, char *comm);

/*
 * stacktrace.h: the kernel stack of the current task at @ip with these registers: @ip, then the
 * return addresses. Context: any.
 * Return: their number, at most @size.
 */
unsigned int ferro_stack_kernel(const struct pt_regs *regs, unsigned long ip, unsigned long *to, unsigned int size);

/*
 * stacktrace.h: the user stack of the current thread, by its frame pointers, as far as it is in
 * memory. Context: any.
 * Return: the number of addresses, at most @size; 0 for a kernel thread.
 */
unsigned int ferro_stack_user(unsigned long *to, unsigned int size);

/* tracepoint.h */
void ferro_tracepoint_synchronize_unregister(void);

#endif /* _FERROTRACE_SYS_TRACE_HELPERS_H */
