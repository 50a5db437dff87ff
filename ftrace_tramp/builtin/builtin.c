// SPDX-License-Identifier: GPL-2.0
/*
 * For the trampoline engine, what the kernel does not export.
 */
#include <linux/export.h>
#include <linux/ftrace.h>
#include <linux/mutex.h>
#include <asm/nospec-branch.h>
#include <asm/text-patching.h>

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

unsigned long ferro_tramp_return_thunk(void *at)
{
	return cpu_wants_rethunk_at(at) ? (unsigned long)x86_return_thunk : 0;
}
EXPORT_SYMBOL_GPL(ferro_tramp_return_thunk);
