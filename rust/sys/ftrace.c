// SPDX-License-Identifier: GPL-2.0
/*
 * The C half of ftrace_ops.rs.
 */
#include <linux/export.h>
#include <linux/ftrace.h>
#include <linux/kprobes.h>
#include <linux/mutex.h>
#include <linux/trace_recursion.h>

#include "ftrace.h"

DEFINE_MUTEX(ferro_ftrace_ops_lock);

notrace int ferro_ftrace_enter(unsigned long ip, unsigned long parent_ip)
{
	return ftrace_test_recursion_trylock(ip, parent_ip);
}
EXPORT_SYMBOL_GPL(ferro_ftrace_enter);
NOKPROBE_SYMBOL(ferro_ftrace_enter);

notrace void ferro_ftrace_leave(int bit)
{
	ftrace_test_recursion_unlock(bit);
}
EXPORT_SYMBOL_GPL(ferro_ftrace_leave);
NOKPROBE_SYMBOL(ferro_ftrace_leave);

notrace struct pt_regs *ferro_ftrace_regs(struct ftrace_regs *fregs)
{
	return ftrace_get_regs(fregs);
}
EXPORT_SYMBOL_GPL(ferro_ftrace_regs);
NOKPROBE_SYMBOL(ferro_ftrace_regs);
