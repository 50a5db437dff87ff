/* SPDX-License-Identifier: GPL-2.0 */
/* Declarations for ftrace_ops.rs. */
#ifndef _FERROTRACE_SYS_FTRACE_H
#define _FERROTRACE_SYS_FTRACE_H

#ifdef CONFIG_KPROBES_ENGINE_RUST

struct mutex;

/* Protects the sets of ftrace_ops.rs. */
extern struct mutex ferro_ftrace_ops_lock;
/* A function without callers. */
void ferro_ftrace_anchor(void);

#endif /* CONFIG_KPROBES_ENGINE_RUST */

#endif /* _FERROTRACE_SYS_FTRACE_H */
