// SPDX-License-Identifier: GPL-2.0
/*
 * The C half of ftrace_ops.rs.
 */
#include <linux/compiler.h>
#include <linux/ftrace.h>
#include <linux/mutex.h>

#include "ftrace.h"

DEFINE_MUTEX(ferro_ftrace_ops_lock);

/*
 * Every set of ftrace_ops.rs has it, and so is never empty: an empty one is all functions for ftrace. Nobody calls it.
 */
noinline void ferro_ftrace_anchor(void)
{
	barrier();
}

/* What a callback gets is struct pt_regs, which is complete with FTRACE_OPS_FL_SAVE_REGS. */
static_assert(offsetof(struct __arch_ftrace_regs, regs) == 0);
