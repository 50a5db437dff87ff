// SPDX-License-Identifier: GPL-2.0
/* The trampoline engine's access to kernel symbols that are not exported. */
#include <linux/export.h>
#include <linux/ferrotrace_ftrace.h>
#include <linux/ftrace.h>
#include <linux/init.h>
#include <linux/kprobes.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <linux/workqueue.h>
#include <asm/nospec-branch.h>
#include <asm/text-patching.h>

#include "../../../trace/ftrace_internal.h"
#include "builtin.h"

DEFINE_MUTEX(ferro_tramp_mutex);
EXPORT_SYMBOL_GPL(ferro_tramp_mutex);

void ferro_tramp_labels(bool saves_regs, struct ferro_tramp_labels *labels)
{
	if (saves_regs)
		*labels = (struct ferro_tramp_labels) {
			.start = (unsigned long)ftrace_regs_caller,
			.load_ops = (unsigned long)ftrace_regs_caller_op_ptr,
			.call = (unsigned long)ftrace_regs_call,
			.direct = (unsigned long)ftrace_regs_caller_jmp,
			.end = (unsigned long)ftrace_regs_caller_end,
		};
	else
		*labels = (struct ferro_tramp_labels) {
			.start = (unsigned long)ftrace_caller,
			.load_ops = (unsigned long)ftrace_caller_op_ptr,
			.call = (unsigned long)ftrace_call,
			.end = (unsigned long)ftrace_caller_end,
		};
}
EXPORT_SYMBOL_GPL(ferro_tramp_labels);

unsigned long ferro_tramp_function(struct ftrace_ops *ops)
{
	return (unsigned long)ftrace_ops_get_func(ops);
}
EXPORT_SYMBOL_GPL(ferro_tramp_function);

static ftrace_func_t last_function(struct ftrace_ops *ops)
{
	unsigned long state = ops->flags & (FTRACE_OPS_FL_ENABLED | FTRACE_OPS_FL_ADDING);

	lockdep_assert_held(&ftrace_lock);
	/* An ops that is still being added is refused, and so unregistered, too. */
	return state == FTRACE_OPS_FL_ENABLED ? ftrace_ops_get_func(ops) : ftrace_stub;
}

unsigned long ferro_tramp_last_function(struct ftrace_ops *ops)
{
	return (unsigned long)last_function(ops);
}
EXPORT_SYMBOL_GPL(ferro_tramp_last_function);

unsigned long ferro_tramp_return_thunk(void *at)
{
	return cpu_wants_rethunk_at(at) ? (unsigned long)x86_return_thunk : 0;
}
EXPORT_SYMBOL_GPL(ferro_tramp_return_thunk);

unsigned long ftrace_set_addresses[FTRACE_SETS];
EXPORT_SYMBOL_GPL(ftrace_set_addresses);

/* A set of ops, with the calls of its trampoline; an entry without a function ends the list. */
struct set {
	struct ftrace_set_ops set;
	struct set_call {
		ftrace_func_t func;
		struct ftrace_ops *ops;
	} calls[];
};

/*
 * Callback of a set's trampoline. The code is in the image because sites may call it forever after
 * ftrace has failed. As in the trampoline of one ops, callbacks that need recursion protection or
 * RCU are called through ftrace's own wrapper.
 */
static void notrace call_set(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *ops,
			     struct ftrace_regs *fregs)
{
	const struct set_call *call = container_of(ops, struct set, set.ops)->calls;
	ftrace_func_t func = READ_ONCE(call->func);

	do {
		func(ip, parent_ip, call->ops, fregs);
		call++;
		func = READ_ONCE(call->func);
	} while (func);
}
NOKPROBE_SYMBOL(call_set);

struct ftrace_ops *ferro_tramp_set_new(struct ftrace_ops **ops, unsigned int count, bool saves_regs)
{
	struct set *set = kzalloc(struct_size(set, calls, count + 1), GFP_KERNEL);
	unsigned int i;

	if (!set)
		return NULL;
	set->set.ops.func = call_set;
	set->set.ops.flags = FTRACE_OPS_FL_DYNAMIC | FTRACE_OPS_FL_ALLOC_TRAMP;
	if (saves_regs)
		set->set.ops.flags |= FTRACE_OPS_FL_SAVE_REGS;
	for (i = 0; i < count; i++)
		set->calls[i] = (struct set_call){ ftrace_ops_get_func(ops[i]), ops[i] };
	return &set->set.ops;
}
EXPORT_SYMBOL_GPL(ferro_tramp_set_new);

void ferro_tramp_set_free(struct ftrace_ops *set)
{
	kfree(container_of(set, struct set, set.ops));
}
EXPORT_SYMBOL_GPL(ferro_tramp_set_free);

void ferro_tramp_set_retarget(struct ftrace_ops *set, unsigned int at)
{
	struct set_call *call = &container_of(set, struct set, set.ops)->calls[at];

	WRITE_ONCE(call->func, ftrace_ops_get_func(call->ops));
}
EXPORT_SYMBOL_GPL(ferro_tramp_set_retarget);

void ferro_tramp_set_handle_failure(struct ftrace_ops *set)
{
	struct set_call *call;

	for (call = container_of(set, struct set, set.ops)->calls; call->func; call++)
		WRITE_ONCE(call->func, last_function(call->ops));
}
EXPORT_SYMBOL_GPL(ferro_tramp_set_handle_failure);

unsigned int ferro_tramp_ops_of(unsigned long ip, const struct ftrace_ops *but,
				struct ftrace_ops **ops, unsigned int most)
{
	struct ftrace_ops *op;
	unsigned int found = 0;

	lockdep_assert_held(&ftrace_lock);
	do_for_each_ftrace_op(op, ftrace_ops_list) {
		/* An ops that is being registered; the function asks about it, too. */
		if (op == but || !(op->flags & FTRACE_OPS_FL_ENABLED) || !ftrace_ops_test(op, ip, op))
			continue;
		if (found < most)
			ops[found] = op;
		found++;
	} while_for_each_ftrace_op(op);
	return found;
}
EXPORT_SYMBOL_GPL(ferro_tramp_ops_of);

bool ferro_tramp_is_before(const struct ftrace_ops *ops, const struct ftrace_ops *other)
{
	struct ftrace_ops *op;

	lockdep_assert_held(&ftrace_lock);
	do_for_each_ftrace_op(op, ftrace_ops_list) {
		if (op == ops || op == other)
			return op == ops;
	} while_for_each_ftrace_op(op);
	return false;
}
EXPORT_SYMBOL_GPL(ferro_tramp_is_before);

void ferro_tramp_wait(void)
{
	/* As in ftrace_shutdown(): for preempted tasks, and for CPUs where RCU is not watching. */
	synchronize_rcu_tasks_rude();
	synchronize_rcu_tasks();
}
EXPORT_SYMBOL_GPL(ferro_tramp_wait);

void ferro_tramp_locked(void (*function)(void))
{
	guard(mutex)(&ftrace_lock);
	function();
}
EXPORT_SYMBOL_GPL(ferro_tramp_locked);

static void (*reclaim)(void);

static void run_reclaim(struct work_struct *work)
{
	reclaim();
}

static DECLARE_DELAYED_WORK(reclaim_work, run_reclaim);

void ferro_tramp_schedule_reclaim(void (*function)(void))
{
	/* All callers pass the same function until ferro_tramp_cancel_reclaim(). */
	WRITE_ONCE(reclaim, function);
	queue_delayed_work(system_dfl_wq, &reclaim_work, HZ / 10);
}
EXPORT_SYMBOL_GPL(ferro_tramp_schedule_reclaim);

void ferro_tramp_cancel_reclaim(void)
{
	cancel_delayed_work_sync(&reclaim_work);
}
EXPORT_SYMBOL_GPL(ferro_tramp_cancel_reclaim);

#if IS_BUILTIN(CONFIG_FTRACE_TRAMP_RUST)
/*
 * At the earliest point where RCU-tasks grace periods work. Functions may be traced already
 * ("ftrace=" on the command line, and the tests of CONFIG_FTRACE_STARTUP_TEST, which have no
 * trampolines then).
 */
core_initcall(ferro_tramp_start);
#endif
