// SPDX-License-Identifier: GPL-2.0
/*
 * The C half of tracer.rs and fregs.rs.
 *
 * Contexts: process. Locks: none but the one that it defines.
 */
#include <linux/build_bug.h>
#include <linux/ftrace.h>
#include <linux/mutex.h>
#include <linux/stddef.h>

/* struct ftrace_hash is ftrace's own. */
#include <../kernel/trace/trace.h>

#include "filter.h"

DEFINE_MUTEX(ferro_ftrace_api_lock);

unsigned long ferro_ftrace_filter_count(struct ftrace_ops *ops)
{
	return ops->func_hash->filter_hash->count;
}

/* What a callback gets is a struct pt_regs, more or less complete. */
static_assert(offsetof(struct __arch_ftrace_regs, regs) == 0);
