// SPDX-License-Identifier: GPL-2.0
/*
 * Functions for the tests to probe, and a thread that keeps calling one.
 */
#include <linux/err.h>
#include <linux/kthread.h>
#include <linux/linkage.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>

#include "test_targets.h"

/* Returns first + second: mov at 0, add at 3, ret at 6. */
asm(
	"	.text\n"
	"	.type kprobe_api_add, @function\n"
	"	.globl kprobe_api_add\n"
	ASM_FUNC_ALIGN
	"kprobe_api_add:\n"
	"	mov %rdi, %rax\n"
	"	add %rsi, %rax\n"
	ASM_RET
	"	.size kprobe_api_add, .-kprobe_api_add\n"
);

noinline __noclone int kprobe_api_next(int value)
{
	barrier();
	return value + 1;
}

noinline __noclone long kprobe_api_eight(int a, u8 b, bool c, const char *d, s64 e, u16 f, long g,
					 long h)
{
	barrier();
	return a + b + c + *d + e + f + g + h;
}

noinline __noclone int kprobe_api_depth(int depth)
{
	int below = 0;

	if (depth > 0)
		below = kprobe_api_depth(depth - 1) + 1;
	/* Prevents a tail call. */
	OPTIMIZER_HIDE_VAR(below);
	return below;
}

static struct task_struct *caller;

static int keep_calling(void *unused)
{
	while (!kthread_should_stop()) {
		kprobe_api_next(1);
		/*
		 * cond_resched() alone does nothing in a preemptible kernel, but others wait for
		 * RCU tasks.
		 */
		cond_resched_tasks_rcu_qs();
	}
	return 0;
}

int kprobe_api_start_calling(void)
{
	struct task_struct *task;

	if (caller)
		return -EBUSY;
	task = kthread_run(keep_calling, NULL, "kprobe_api");
	if (IS_ERR(task))
		return PTR_ERR(task);
	caller = task;
	return 0;
}

void kprobe_api_stop_calling(void)
{
	kthread_stop(caller);
	caller = NULL;
}
