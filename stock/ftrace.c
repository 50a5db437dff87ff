// SPDX-License-Identifier: GPL-2.0
/* Functions of ftrace that modules cannot call, for ftrace_tramp/builtin/data.c. */
#include <linux/export.h>
#include <linux/ftrace.h>
#include <linux/hash.h>
#include <linux/preempt.h>
#include <linux/rcupdate.h>
#include <linux/rculist.h>
#include <asm/ibt.h>

#include <../kernel/trace/ftrace_internal.h>
#include <../kernel/trace/trace.h>

DEFINE_MUTEX(ferro_stock_ftrace_lock);
EXPORT_SYMBOL_GPL(ferro_stock_ftrace_lock);

int ferro_stock_ftrace_ops_test(struct ftrace_ops *ops, unsigned long ip)
{
	const struct ftrace_func_entry *entry;
	const struct ftrace_hash *hash;

	guard(rcu)();
	hash = rcu_dereference_sched_check(ops->func_hash->filter_hash, true);
	if (!hash || !hash->count)
		return false;
	hlist_for_each_entry_rcu_notrace(entry, &hash->buckets[hash->size_bits ? hash_long(ip, hash->size_bits) : 0], hlist)
		if (entry->ip == ip)
			return true;
	return false;
}
EXPORT_SYMBOL_GPL(ferro_stock_ftrace_ops_test);
