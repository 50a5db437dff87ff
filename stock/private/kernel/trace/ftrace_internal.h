/* SPDX-License-Identifier: GPL-2.0 */
/* Stands in for ftrace's private header: functions of ftrace that modules cannot call. */
#ifndef _FERROTRACE_STOCK_FTRACE_INTERNAL_H
#define _FERROTRACE_STOCK_FTRACE_INTERNAL_H

#include <linux/mutex.h>
#include <linux/types.h>

struct ftrace_ops;

/* No engine of ours has to be kept out, so a lock of our own is enough. */
extern struct mutex ferro_stock_ftrace_lock;
#define ftrace_lock ferro_stock_ftrace_lock

/* Ops with data are ops like others for mainline's ftrace. */
#undef FTRACE_OPS_FL_DATA
#define FTRACE_OPS_FL_DATA 0

/* Registering refuses ops when ftrace has failed. */
static inline bool ftrace_is_dead(void)
{
	return false;
}

/* Returns true if a function is in the filter of an ops. */
int ferro_stock_ftrace_ops_test(struct ftrace_ops *ops, unsigned long ip);
#define ftrace_ops_test(ops, ip, regs) ferro_stock_ftrace_ops_test(ops, ip)

#endif /* _FERROTRACE_STOCK_FTRACE_INTERNAL_H */
