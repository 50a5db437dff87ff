/* SPDX-License-Identifier: GPL-2.0 */
/*
 * ftrace_tramp_selftest: cases of struct ftrace_ops on functions of its own; driven through debugfs ftrace_tramp_selftest/.
 */
#ifndef _TRAMP_SELFTEST_H
#define _TRAMP_SELFTEST_H

#include <linux/array_size.h>
#include <linux/ftrace.h>
#include <linux/types.h>

#include "cases.h"

/* The traced functions: some return their argument, and one returns the sum of its six. */
long fts_a(long x);
long fts_b(long x);
long fts_sum(long a, long b, long c, long d, long e, long f);

/* targets.S: a callback at an odd address, which counts in @fts_odd_calls. */
void fts_odd(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op, struct ftrace_regs *fregs);
extern unsigned long fts_odd_calls;

/* Makes the control file of commands.c. */
struct dentry;
void fts_commands_init(struct dentry *dir);

/* Commands of spinning.c and many.c. */
struct ctl_args;
int fts_spin(const struct ctl_args *a);
extern bool fts_spun;
int fts_unspin(const struct ctl_args *a);
int fts_watch(const struct ctl_args *a);
int fts_unwatch(const struct ctl_args *a);
int fts_trace_few(const struct ctl_args *a);
int fts_many_sets(const struct ctl_args *a);
int fts_trace_many(const struct ctl_args *a);
int fts_few_sets(const struct ctl_args *a);

/* Returns the target of the call at a function's entry; NULL if it calls nothing. */
const u8 *fts_called(const void *function);

/* Returns true if the function has the same bytes as without a tracer. */
bool fts_is_plain(const void *function);

extern const struct test_case fts_bytes_cases[], fts_one_cases[], fts_several_cases[],
	fts_sets_cases[], fts_data_cases[], fts_renew_cases[], fts_leaving_cases[], fts_storm_cases[];

#endif /* _TRAMP_SELFTEST_H */
