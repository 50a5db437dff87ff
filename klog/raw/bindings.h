/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Kernel headers that klog needs, and the per-CPU data of klog for its Rust part. All functions
 * run with interrupts off, except where stated; NMIs nest.
 */
#ifndef _FERROTRACE_KLOG_BINDINGS_H
#define _FERROTRACE_KLOG_BINDINGS_H

#include <linux/klog.h>
#include <linux/types.h>

struct module;
struct mutex;

/* Held while the handler changes. */
extern struct mutex klog_rust_mutex;
/* Defined in exports.rs. Context: the module notifier. */
void ferro_klog_module_going(struct module *mod);

/*
 * Begins a call of the handler. Returns true if the handler may be called; ferro_klog_exit() has to
 * follow on the same CPU. Otherwise returns false and counts the message as missed.
 */
bool ferro_klog_enter(void);
void ferro_klog_exit(void);

/*
 * Returns KLOG_PRINTK_MAX bytes to format a message into, to be given back with
 * ferro_klog_text_put(). Returns NULL and counts the message as missed if it is logged while
 * another message is being formatted or handled.
 */
char *ferro_klog_text_get(void);
void ferro_klog_text_put(void);

/* Names the registered handler in the kernel's log. */
void ferro_klog_tell_other(const void *handler);

/* Returns true if there is a handler. Defined in Rust. Context: any. */
bool ferro_klog_active(void);

#endif /* _FERROTRACE_KLOG_BINDINGS_H */
