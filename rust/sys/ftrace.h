/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Functions for ftrace_ops.rs: what of ftrace is inline.
 */
#ifndef _FERROTRACE_SYS_FTRACE_H
#define _FERROTRACE_SYS_FTRACE_H

#ifdef CONFIG_KPROBES_ENGINE_RUST

struct ftrace_regs;
struct mutex;
struct pt_regs;

/* Which functions ftrace_ops.rs has switched on. */
extern struct mutex ferro_ftrace_ops_lock;

/*
 * Begin and end what an ftrace_ops does at a site, with preemption off. A negative number: this context is in it
 * already, and there is nothing to end.
 */
int ferro_ftrace_enter(unsigned long ip, unsigned long parent_ip);
void ferro_ftrace_leave(int bit);
/* All registers, or NULL if they were not saved. */
struct pt_regs *ferro_ftrace_regs(struct ftrace_regs *fregs);

#endif /* CONFIG_KPROBES_ENGINE_RUST */

#endif /* _FERROTRACE_SYS_FTRACE_H */
