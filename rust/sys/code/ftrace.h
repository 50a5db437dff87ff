/* SPDX-License-Identifier: GPL-2.0 */
/*
 * For ftrace_ops.rs.
 */
#ifndef _FERROTRACE_SYS_FTRACE_H
#define _FERROTRACE_SYS_FTRACE_H

#ifdef CONFIG_KPROBES_ENGINE_RUST

struct mutex;

/* Which functions ftrace_ops.rs has switched on. */
extern struct mutex ferro_ftrace_ops_lock;
/* A function that nobody calls. */
void ferro_ftrace_anchor(void);

#endif /* CONFIG_KPROBES_ENGINE_RUST */

#endif /* _FERROTRACE_SYS_FTRACE_H */
