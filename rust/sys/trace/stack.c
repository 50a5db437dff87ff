// SPDX-License-Identifier: GPL-2.0
/* The C half of stack.rs: the kernel's stack walkers, which modules cannot call. */
#include <linux/export.h>
#include <linux/ptrace.h>
#include <linux/sched.h>
#include <linux/stacktrace.h>
#include <asm/tlb.h>

#include "helpers.h"

notrace unsigned int ferro_stack_kernel(const struct pt_regs *regs, unsigned long ip, unsigned long *to, unsigned int size)
{
#ifdef CONFIG_STACKTRACE
	/*
	 * The unwinder looks up this address, and the registers of a breakpoint have the one after
	 * it.
	 */
	struct pt_regs at = *regs;

	at.ip = ip;
	return stack_trace_save_regs(&at, to, size, 0);
#else
	return 0;
#endif
}
EXPORT_SYMBOL_GPL(ferro_stack_kernel);

notrace unsigned int ferro_stack_user(unsigned long *to, unsigned int size)
{
	if (current->flags & (PF_KTHREAD | PF_USER_WORKER) || !current->mm)
		return 0;
	/* During a task switch, or while code is patched, another task's memory is mapped. */
	if (!nmi_uaccess_okay())
		return 0;
#if defined(CONFIG_STACKTRACE) && defined(CONFIG_USER_STACKTRACE_SUPPORT)
	return stack_trace_save_user(to, size);
#else
	return 0;
#endif
}
EXPORT_SYMBOL_GPL(ferro_stack_user);
