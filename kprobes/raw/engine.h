/* SPDX-License-Identifier: GPL-2.0 */
/* Declarations that the C and the Rust of the kprobes engine share. */
#ifndef _FERROTRACE_KPROBES_ENGINE_H
#define _FERROTRACE_KPROBES_ENGINE_H

#include <linux/types.h>

struct mutex;

/* Protects the state of the engine. */
extern struct mutex kprobes_rust_mutex;

/* Warns, once, of a client that registers a probe twice, with its call trace. */
void ferro_registered_twice(void);

/* Returns true if a copy has to stop at a breakpoint, as post_trampoline.S cannot be used. */
bool ferro_kprobe_must_stop(void);
bool ferro_kprobe_returns_early(void);

/*
 * Makes the engine, if it is a module, stay once ftrace has broken down, or not. Context: process.
 */
void ferro_kprobes_hold(bool on);

/* Sleeps for a tenth of a second, and does not prevent suspending the machine. */
void ferro_kprobes_doze(void);

/*
 * Calls ferro_kprobes_reap(), with this number, after a grace period of RCU tasks. Returns false if
 * a call is due already.
 */
bool ferro_kprobes_call_reap(unsigned long number);
/* Waits for such a call. */
void ferro_kprobes_wait_for_reap(void);
/* exports.rs. Context: process. */
void ferro_kprobes_reap(unsigned long number);

#endif /* _FERROTRACE_KPROBES_ENGINE_H */
