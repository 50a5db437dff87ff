// SPDX-License-Identifier: GPL-2.0
/* Fires task_fork and task_exit from tracepoints, in place of the patch of fork and exit. */
#include <linux/gkhi_points.h>
#include <linux/printk.h>
#include <linux/sched.h>
#include <linux/string.h>
#include <linux/tracepoint.h>

#include "core.h"

static void newtask(void *unused, struct task_struct *task, unsigned long clone_flags)
{
	GKHOOK_2VAR_RO(task_fork, task, clone_flags);
}

static void process_free(void *unused, struct task_struct *task)
{
	GKHOOK_1VAR_RO(task_exit, task);
}

/* @tracepoint is NULL as long as it has not been found. */
static struct source {
	const char *name;
	void *probe;
	struct tracepoint *tracepoint;
} sources[] = {
	{ "task_newtask", newtask },
	{ "sched_process_free", process_free },
};

static void find(struct tracepoint *tracepoint, void *unused)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(sources); i++)
		if (!strcmp(tracepoint->name, sources[i].name))
			sources[i].tracepoint = tracepoint;
}

void ferro_stock_hook_points_exit(void)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(sources); i++)
		if (sources[i].tracepoint)
			tracepoint_probe_unregister(sources[i].tracepoint, sources[i].probe, NULL);
	tracepoint_synchronize_unregister();
}

int __init ferro_stock_hook_points_init(void)
{
	int i, err;

	for_each_kernel_tracepoint(find, NULL);
	for (i = 0; i < ARRAY_SIZE(sources); i++) {
		err = sources[i].tracepoint ? tracepoint_probe_register(sources[i].tracepoint, sources[i].probe, NULL) : -ENOENT;
		if (!err)
			continue;
		pr_err("ferrotrace: tracepoint %s: error %d\n", sources[i].name, err);
		for (; i < ARRAY_SIZE(sources); i++)
			sources[i].tracepoint = NULL;
		ferro_stock_hook_points_exit();
		return err;
	}
	return 0;
}
