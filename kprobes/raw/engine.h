/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the C and the Rust of the kprobes engine share.
 */
#ifndef _FERROTRACE_KPROBES_ENGINE_H
#define _FERROTRACE_KPROBES_ENGINE_H

#include <linux/types.h>

struct mutex;

/* For what is registered. */
extern struct mutex kprobes_rust_mutex;

/* Warns, once, of a client that registers a probe twice, and shows who it is. */
void ferro_registered_twice(void);

/* Whether a copy has to stop at a breakpoint, as post_trampoline.S cannot be used. */
bool ferro_kprobe_must_stop(void);
bool ferro_kprobe_returns_early(void);

/* Whether the engine, if it is a module, is to stay once ftrace has broken down. Context: process. */
void ferro_kprobes_hold(bool on);

/* Sleep for a tenth of a second, in a way that lets the machine be suspended. */
void ferro_kprobes_doze(void);

/* Call ferro_kprobes_reap(), with this number, when every task has been somewhere else, unless a call is due. Whether it is done. */
bool ferro_kprobes_call_reap(unsigned long number);
/* Wait for such a call. */
void ferro_kprobes_wait_for_reap(void);
/* exports.rs. Context: process. */
void ferro_kprobes_reap(unsigned long number);

#endif /* _FERROTRACE_KPROBES_ENGINE_H */
