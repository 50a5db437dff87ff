/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What klog keeps for each CPU, for its Rust part. All with interrupts off;
 * NMIs nest.
 */
#ifndef _FERROTRACE_KLOG_CONTEXT_H
#define _FERROTRACE_KLOG_CONTEXT_H

#include <linux/types.h>

struct module;
struct mutex;

/* Held while the handler changes. */
extern struct mutex klog_rust_mutex;
/* exports.rs. Context: the module notifier. */
void ferro_klog_module_going(struct module *mod);

/*
 * Whether a handler may be called here; then ferro_klog_exit() has to follow
 * on the same CPU. If not, the message is counted as missed.
 */
bool ferro_klog_enter(void);
void ferro_klog_exit(void);

/*
 * KLOG_PRINTK_MAX bytes to format a message into, given back with
 * ferro_klog_text_put(). NULL, and the message is counted as missed, if what
 * formats or takes one logs another.
 */
char *ferro_klog_text_get(void);
void ferro_klog_text_put(void);

/* Says in the log which handler is registered. */
void ferro_klog_tell_other(const void *handler);

/* Whether there is a handler. Defined in Rust; in any context. */
bool ferro_klog_active(void);

#endif /* _FERROTRACE_KLOG_CONTEXT_H */
