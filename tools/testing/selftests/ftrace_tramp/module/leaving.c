// SPDX-License-Identifier: GPL-2.0
/*
 * The engine is removed and loaded, by run.sh between two steps, while functions are called and while batches fail on a function
 * that has two ops; and while a callback calls a function that another ops has go on elsewhere, as a livepatch does.
 */
#include <linux/atomic.h>
#include <linux/delay.h>
#include <linux/err.h>
#include <linux/ferrotrace_ftrace.h>
#include <linux/kthread.h>
#include <linux/slab.h>

#include "tramp_selftest.h"

enum { FIRST, SECOND, CALLING, DIVERTING, REGISTERED, REFUSED = REGISTERED, ALL };

static struct ftrace_ops *ops[ALL];
static unsigned int registered;
static atomic_long_t calls[ALL], undiverted, batches, wrong;
static struct task_struct *caller, *batcher;

static long diverted(long x)
{
	return x + 1000;
}

static void count(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op, struct ftrace_regs *fregs)
{
	unsigned int i = (unsigned long)op->private;

	atomic_long_inc(&calls[i]);
	if (i == CALLING && fts_b(1) != 1001)
		atomic_long_inc(&undiverted);
}

static void divert(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op, struct ftrace_regs *fregs)
{
	ftrace_regs_set_instruction_pointer(fregs, (unsigned long)diverted);
}

static int call_functions(void *unused)
{
	long i;

	for (i = 0; !kthread_should_stop(); i++) {
		if (fts_sum(i, 1, 2, 3, 4, 5) != i + 15 || fts_a(i) != i)
			atomic_long_inc(&wrong);
		if (!(i & 63))
			usleep_range(500, 1000);
	}
	return 0;
}

static int fail_batches(void *unused)
{
	struct ftrace_ops *twice[] = { ops[REFUSED], ops[REFUSED] };

	while (!kthread_should_stop()) {
		if (register_ftrace_functions(twice, 2) != -EBUSY)
			atomic_long_inc(&wrong);
		atomic_long_inc(&batches);
		usleep_range(500, 1000);
	}
	return 0;
}

static bool prepare(unsigned int i, const void *function, ftrace_func_t func, unsigned long flags)
{
	/* They are dynamic, so that they are waited for. */
	ops[i] = kzalloc_obj(*ops[i]);
	if (!EXPECT(ops[i]))
		return false;
	ops[i]->func = func;
	ops[i]->flags = flags;
	ops[i]->private = (void *)(unsigned long)i;
	atomic_long_set(&calls[i], 0);
	return EXPECT_EQ(ftrace_set_filter_ip(ops[i], (unsigned long)function, 0, 0), 0);
}

static void stop(void)
{
	unsigned int i;

	if (!IS_ERR_OR_NULL(batcher))
		kthread_stop(batcher);
	if (!IS_ERR_OR_NULL(caller))
		kthread_stop(caller);
	batcher = caller = NULL;
	while (registered)
		EXPECT_EQ(unregister_ftrace_function(ops[--registered]), 0);
	for (i = 0; i < ALL; i++) {
		if (ops[i])
			ftrace_free_filter(ops[i]);
		kfree(ops[i]);
		ops[i] = NULL;
	}
}

static void begin(void)
{
	atomic_long_set(&undiverted, 0);
	atomic_long_set(&batches, 0);
	atomic_long_set(&wrong, 0);
	if (!prepare(FIRST, fts_sum, count, 0) || !prepare(SECOND, fts_sum, count, 0) || !prepare(REFUSED, fts_sum, count, 0) ||
	    !prepare(CALLING, fts_a, count, 0) || !prepare(DIVERTING, fts_b, divert, FTRACE_OPS_FL_IPMODIFY))
		goto failed;
	while (registered < REGISTERED) {
		if (!EXPECT_EQ(register_ftrace_function(ops[registered]), 0))
			goto failed;
		registered++;
	}
	caller = kthread_run(call_functions, NULL, "fts_leave_call");
	batcher = kthread_run(fail_batches, NULL, "fts_leave_fail");
	if (EXPECT(!IS_ERR(caller)) & EXPECT(!IS_ERR(batcher)))
		return;
failed:
	stop();
}

static void end(void)
{
	if (!EXPECT_EQ(registered, REGISTERED))
		return;
	stop();
	EXPECT(atomic_long_read(&batches) > 0);
	EXPECT(atomic_long_read(&calls[CALLING]) > 0);
	EXPECT_EQ(atomic_long_read(&calls[FIRST]), atomic_long_read(&calls[SECOND]));
	EXPECT_EQ(atomic_long_read(&undiverted), 0);
	EXPECT_EQ(atomic_long_read(&wrong), 0);
}

const struct test_case fts_leaving_cases[] = {
	{ "leaving.1_begin", begin },
	{ "leaving.2_end", end },
	{ }
};
