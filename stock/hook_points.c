// SPDX-License-Identifier: GPL-2.0
/* Fires the hook points task_fork and task_exit from tracepoints; a patched kernel has patch 0007. */
#include <linux/gkhi_points.h>
#include <linux/printk.h>
#include <linux/sched.h>
#include <linux/string.h>
#include <linux/tracepoint.h>

#include "core.h"

static void probe_task_newtask(void *unused, struct task_struct *task, unsigned long clone_flags)
{
	GKHOOK_2VAR_RO(task_fork, task, clone_flags);
}

static void probe_sched_process_free(void *unused, struct task_struct *task)
{
	GKHOOK_1VAR_RO(task_exit, task);
}

/* @tracepoint is NULL if it is not found, or if @probe is not registered. */
static struct hook_tracepoint {
	const char *name;
	void *probe;
	struct tracepoint *tracepoint;
} hook_tracepoints[] = {
	{ "task_newtask", probe_task_newtask },
	{ "sched_process_free", probe_sched_process_free },
};

static void match_tracepoint(struct tracepoint *tracepoint, void *unused)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(hook_tracepoints); i++)
		if (!strcmp(tracepoint->name, hook_tracepoints[i].name))
			hook_tracepoints[i].tracepoint = tracepoint;
}

void ferro_stock_hook_points_exit(void)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(hook_tracepoints); i++)
		if (hook_tracepoints[i].tracepoint)
			tracepoint_probe_unregister(hook_tracepoints[i].tracepoint, hook_tracepoints[i].probe, NULL);
	tracepoint_synchronize_unregister();
}

int __init ferro_stock_hook_points_init(void)
{
	int i, err;

	for_each_kernel_tracepoint(match_tracepoint, NULL);
	for (i = 0; i < ARRAY_SIZE(hook_tracepoints); i++) {
		err = hook_tracepoints[i].tracepoint ? tracepoint_probe_register(hook_tracepoints[i].tracepoint, hook_tracepoints[i].probe, NULL) : -ENOENT;
		if (!err)
			continue;
		pr_err("ferrotrace: cannot attach to tracepoint %s: error %d\n", hook_tracepoints[i].name, err);
		for (; i < ARRAY_SIZE(hook_tracepoints); i++)
			hook_tracepoints[i].tracepoint = NULL;
		ferro_stock_hook_points_exit();
		return err;
	}
	return 0;
}
