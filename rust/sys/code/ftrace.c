// SPDX-License-Identifier: GPL-2.0
/* C half of ftrace_ops.rs. */
#include <linux/compiler.h>
#include <linux/ftrace.h>
#include <linux/mutex.h>

#include "ftrace.h"

DEFINE_MUTEX(ferro_ftrace_ops_lock);

/*
 * Member of every set of ftrace_ops.rs, so that no set is empty: for ftrace, an empty set means all
 * functions. It has no callers.
 */
noinline void ferro_ftrace_anchor(void)
{
	barrier();
}

/* A callback gets struct pt_regs, complete with FTRACE_OPS_FL_SAVE_REGS. */
static_assert(offsetof(struct __arch_ftrace_regs, regs) == 0);
