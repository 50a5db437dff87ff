// SPDX-License-Identifier: GPL-2.0
/*
 * Commands: "spin" has a task execute in the callback of an ops until 1 is written to "spun", for 10 seconds at the most, and
 * "unspin" unregisters that; "watch at=ADDRESS" counts the calls of a function, and "unwatch calls=N" fails if they were not so
 * many.
 */
#include <linux/completion.h>
#include <linux/ftrace.h>
#include <linux/jiffies.h>
#include <linux/kthread.h>
#include <linux/slab.h>

#include "ctl.h"
#include "tramp_selftest.h"

bool fts_spun;
static DECLARE_COMPLETION(within);

/* Preempted, it stays in the trampoline: it does not sleep. */
static void spin_in(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op, struct ftrace_regs *fregs)
{
	unsigned long end = jiffies + 10 * HZ;

	complete(&within);
	while (!READ_ONCE(fts_spun) && time_before(jiffies, end))
		cpu_relax();
}

static int call_once(void *unused)
{
	fts_a(1);
	return 0;
}

static struct ftrace_ops *spinning;

int fts_spin(const struct ctl_args *a)
{
	struct task_struct *task;
	int err;

	if (spinning)
		return -EBUSY;
	/* Its trampoline is freed with it. */
	spinning = kzalloc_obj(*spinning);
	if (!spinning)
		return -ENOMEM;
	spinning->func = spin_in;
	fts_spun = false;
	reinit_completion(&within);
	err = ftrace_set_filter_ip(spinning, (unsigned long)fts_a, 0, 0) ?: register_ftrace_function(spinning);
	if (err)
		return err;
	task = kthread_run(call_once, NULL, "fts_spin");
	if (IS_ERR(task))
		return PTR_ERR(task);
	wait_for_completion(&within);
	return 0;
}

int fts_unspin(const struct ctl_args *a)
{
	int err;

	if (!spinning)
		return -ENOENT;
	err = unregister_ftrace_function(spinning);
	if (err)
		return err;
	ftrace_free_filter(spinning);
	kfree(spinning);
	spinning = NULL;
	return 0;
}

static unsigned long watched_calls;

static void count_watched(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op, struct ftrace_regs *fregs)
{
	watched_calls++;
}

static struct ftrace_ops watching = { .func = count_watched, .flags = FTRACE_OPS_FL_RECURSION };

int fts_watch(const struct ctl_args *a)
{
	u64 at = 0;
	int err = ctl_num(a, "at", &at);

	watched_calls = 0;
	return err ?: ftrace_set_filter_ip(&watching, at, 0, 0) ?: register_ftrace_function(&watching);
}

int fts_unwatch(const struct ctl_args *a)
{
	u64 calls = 0;
	int err = ctl_num(a, "calls", &calls) ?: unregister_ftrace_function(&watching);

	if (err)
		return err;
	ftrace_free_filter(&watching);
	return watched_calls == calls ? 0 : -EIO;
}
