// SPDX-License-Identifier: GPL-2.0
/* Wrappers for macros and static inline functions, which Rust cannot call. */
#include <linux/export.h>
#include <linux/sched.h>
#include <linux/security.h>
#include <linux/string.h>
#include <linux/tracepoint.h>

#include "helpers.h"
#include "lockdown.h"

int ferro_task_info(const struct task_struct *task, char *comm)
{
	memcpy(comm, task->comm, TASK_COMM_LEN);
	return task->pid;
}
EXPORT_SYMBOL_GPL(ferro_task_info);

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
