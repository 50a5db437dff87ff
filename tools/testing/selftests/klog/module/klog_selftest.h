/* SPDX-License-Identifier: GPL-2.0 */
/*
 * klog_selftest: logs in every context, has handlers, and is driven through
 * debugfs klog_selftest/ctl.
 */
#ifndef _KLOG_SELFTEST_H
#define _KLOG_SELFTEST_H

#include <linux/atomic.h>
#include <linux/seq_file.h>
#include <linux/types.h>

#include "record.h"

struct dentry;

/* context.c: call @fn on @cpu in @context and wait for it. */
int kst_run(unsigned int cpu, unsigned int context, void (*fn)(void *arg), void *arg);
/* An NMI on @cpu, which calls @fn there; not waited for. */
bool kst_have_nmi(void);
void kst_send_nmi(unsigned int cpu, void (*fn)(void *arg), void *arg);
/* Wait for those that have been sent. */
void kst_nmi_settle(void);
int kst_nmi_init(void);
void kst_nmi_exit(void);

/* A message of @len bytes, the next of this CPU and @context. */
void kst_log(unsigned int context, unsigned int len);
u64 kst_logged(unsigned int cpu, unsigned int context);
void kst_reset(void);
int kst_buffers_init(void);
void kst_buffers_exit(void);

/* handler.c */
int kst_register(const char *which);
void kst_unregister(void);
int kst_churn(unsigned int rounds);
void kst_handlers_show(struct seq_file *m);
void kst_handlers_reset(void);
ssize_t kst_last(char __user *to, size_t count, loff_t *pos);

/* storm.c */
int kst_storm_start(unsigned int count, bool with_nmi);
void kst_storm_end(void);
int kst_storm_wait(void);

/* stall.c: makes accesses to the page wait or not, and returns how many do */
void kst_stall(bool wait);
int kst_stalled(void);
int kst_stall_init(struct dentry *dir);
void kst_stall_exit(void);

#endif
