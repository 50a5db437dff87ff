// SPDX-License-Identifier: GPL-2.0
/* Wrappers for macros and static inline functions, which Rust cannot call. */
#include <linux/export.h>
#include <linux/ptrace.h>
#include <linux/sched.h>
#include <linux/security.h>
#include <linux/stacktrace.h>
#include <linux/string.h>
#include <linux/tracepoint.h>
#include <asm/tlb.h>

#include "helpers.h"
#include "lockdown.h"

int ferro_task_info(const struct task_struct *task, char *comm)
{
	memcpy(comm, task->comm, TASK_COMM_LEN);
	return task->pid;
}
EXPORT_SYMBOL_GPL(ferro_task_info);

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

void ferro_tracepoint_synchronize_unregister(void)
{
	tracepoint_synchronize_unregister();
}
EXPORT_SYMBOL_GPL(ferro_tracepoint_synchronize_unregister);

bool ferro_lockdown_forbids_probes(void)
{
	return security_locked_down(LOCKDOWN_KPROBES) != 0;
}
EXPORT_SYMBOL_GPL(ferro_lockdown_forbids_probes);

bool ferro_lockdown_forbids_traces(void)
{
	return security_locked_down(LOCKDOWN_TRACEFS) != 0;
}
EXPORT_SYMBOL_GPL(ferro_lockdown_forbids_traces);

bool ferro_lockdown_forbids_writes(void)
{
	return security_locked_down(LOCKDOWN_DBG_WRITE_KERNEL) != 0;
}
EXPORT_SYMBOL_GPL(ferro_lockdown_forbids_writes);
