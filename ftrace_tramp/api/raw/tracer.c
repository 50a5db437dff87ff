// SPDX-License-Identifier: GPL-2.0
/*
 * C half of tracer.rs, tracer_set.rs and fregs.rs.
 *
 * Contexts: process. Locks: none, except that it defines one.
 */
#include <linux/build_bug.h>
#include <linux/export.h>
#include <linux/ferrotrace_ftrace.h>
#include <linux/ftrace.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/stddef.h>
#include <linux/trace_recursion.h>

/* struct ftrace_hash is private to ftrace. */
#include <../kernel/trace/trace.h>

#include "tracer.h"

DEFINE_MUTEX(ferro_ftrace_api_lock);

unsigned long ferro_ftrace_filter_count(struct ftrace_ops *ops)
{
	return ops->func_hash->filter_hash->count;
}

/* First field of a function's data. */
struct ferro_ftrace_node {
	ftrace_data_func_t call;
};

/* Sets are generic, so their code belongs to the client, which calls this. */
notrace void ferro_ftrace_call_node(unsigned long ip, unsigned long parent_ip, void *data,
				    struct ftrace_regs *fregs)
{
	struct ferro_ftrace_node *node = data;
	int bit = ftrace_test_recursion_trylock(ip, parent_ip);

	if (bit < 0)
		return;
	if (rcu_is_watching())
		node->call(ip, parent_ip, data, fregs);
	ftrace_test_recursion_unlock(bit);
}
EXPORT_SYMBOL_GPL(ferro_ftrace_call_node);

/* A callback gets a struct pt_regs, partly or completely filled. */
static_assert(offsetof(struct __arch_ftrace_regs, regs) == 0);
