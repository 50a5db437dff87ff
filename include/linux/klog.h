/* SPDX-License-Identifier: GPL-2.0 */
/*
 * klog: trace statements that may stay in the code, with or without a listener. See
 * Documentation/klog.rst of Ferrotrace.
 */
#ifndef _LINUX_KLOG_H
#define _LINUX_KLOG_H

#include <linux/compiler_attributes.h>
#include <linux/errno.h>
#include <linux/types.h>

/* Size of klog_printk()'s buffer in bytes, with the closing NUL. */
#define KLOG_PRINTK_MAX	1024

/**
 * struct klog_operations - operations of a klog handler
 * @klog: takes a message of @len bytes at @data, which is valid during the call only. Called
 *	with interrupts off, also in NMI context, and never nested on a CPU. NULL: messages are
 *	not wanted.
 */
struct klog_operations {
	void (*klog)(const void *data, int len);
};

#ifdef CONFIG_KLOG_RUST

/**
 * klog() - log raw data
 * @data: the bytes, which must not change during the call
 * @len: number of bytes; nothing is logged if it is not positive
 *
 * Passes the data to the current handler; does nothing without one. klog_missed() counts messages
 * that are not delivered. These are messages that are logged while the handler is running on this
 * CPU (from an NMI, or from the handler itself), or where RCU is not watching.
 *
 * Context: any.
 */
void klog(const void *data, int len);

/**
 * klog_printk() - log formatted text
 * @fmt: format string, as for printk()
 *
 * Logs the formatted text as klog() does, without a NUL at its end. Text is cut off
 * after %KLOG_PRINTK_MAX - 1 bytes. Without a handler nothing is formatted.
 *
 * Context: any.
 */
__printf(1, 2) void klog_printk(const char *fmt, ...);

/**
 * register_klog_handler() - make a handler the current one
 * @ops: its operations; need not outlive the call, but the function must stay until
 *	unregister_klog_handler() has returned, or until another handler has been registered
 *
 * Replaces the current handler, which is no longer called once this has returned.
 *
 * Context: process; may sleep.
 * Return: 0, -EINVAL if @ops is NULL, or -ESHUTDOWN if the function is in a module that is
 *	being unloaded.
 */
int register_klog_handler(const struct klog_operations *ops);

/**
 * unregister_klog_handler() - remove the current handler
 *
 * The caller need not have registered the handler. Once this has returned, no CPU executes a
 * handler, unless another one is registered.
 *
 * Context: process; may sleep.
 */
void unregister_klog_handler(void);

/**
 * klog_missed() - number of messages that handlers have missed
 *
 * Context: any.
 * Return: the number of messages, since boot, that were logged while there was a handler,
 *	but could not be given to it. See klog().
 */
u64 klog_missed(void);

#else /* !CONFIG_KLOG_RUST */

static inline void klog(const void *data, int len) { }
static inline __printf(1, 2) void klog_printk(const char *fmt, ...) { }
static inline void unregister_klog_handler(void) { }
static inline u64 klog_missed(void) { return 0; }

static inline int register_klog_handler(const struct klog_operations *ops)
{
	return ops ? 0 : -EINVAL;
}

#endif /* !CONFIG_KLOG_RUST */

#endif /* _LINUX_KLOG_H */
