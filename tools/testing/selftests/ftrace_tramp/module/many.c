// SPDX-License-Identifier: GPL-2.0
/*
 * Commands: "trace_few" measures a stack trace in a trampoline, with few sets. "many_sets
 * file=FILE" gives each of some functions of the file its own two ops, so that there are as many
 * sets. "trace_many" fails if a stack trace then takes twice as long or longer; "few_sets"
 * unregisters the ops.
 */
#include <linux/ferrotrace_ftrace.h>
#include <linux/ktime.h>
#include <linux/slab.h>
#include <linux/stacktrace.h>
#include <linux/vmalloc.h>

#include "ctl.h"
#include "functions.h"
#include "tramp_selftest.h"

/* A set for each two of them. */
#define OPS 64
#define SETS (OPS * (OPS - 1) / 2)

static struct ftrace_ops *ops[OPS];
static bool registered;
static u64 fastest, few;

static void nothing(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op, struct ftrace_regs *fregs)
{
}

static void trace(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op, struct ftrace_regs *fregs)
{
	unsigned long entries[16];
	u64 time = ktime_get_mono_fast_ns();

	stack_trace_save(entries, ARRAY_SIZE(entries), 0);
	fastest = min(fastest, ktime_get_mono_fast_ns() - time);
}

/* Returns the fastest of several runs, to exclude other work of the machine. */
static int measure(void)
{
	static struct ftrace_ops tracing = { .func = trace }, other = { .func = nothing };
	struct ftrace_ops *both[] = { &tracing, &other };
	int i, err;

	fastest = U64_MAX;
	for (i = 0; i < 2; i++) {
		err = ftrace_set_filter_ip(both[i], (unsigned long)fts_a, 0, 0);
		if (err)
			return err;
	}
	err = register_ftrace_functions(both, 2);
	if (err)
		return err;
	for (i = 0; i < 300; i++)
		fts_a(i);
	err = unregister_ftrace_functions(both, 2);
	for (i = 0; i < 2; i++)
		ftrace_free_filter(both[i]);
	return err;
}

int fts_trace_few(const struct ctl_args *a)
{
	int err = measure();

	few = fastest;
	return err;
}

int fts_trace_many(const struct ctl_args *a)
{
	int err = measure();

	pr_info("stack trace: %llu ns with few sets, %llu with many\n", few, fastest);
	return err ?: fastest < 2 * few ? 0 : -ETIME;
}

int fts_few_sets(const struct ctl_args *a)
{
	int i, err = 0;

	if (registered)
		err = unregister_ftrace_functions(ops, OPS);
	if (err)
		return err;
	registered = false;
	for (i = 0; i < OPS; i++) {
		if (ops[i])
			ftrace_free_filter(ops[i]);
		kfree(ops[i]);
		ops[i] = NULL;
	}
	return 0;
}

int fts_many_sets(const struct ctl_args *a)
{
	struct ftrace_data *functions;
	unsigned int count, i, j, next = 0;
	int err = 0;

	if (registered)
		return -EBUSY;
	functions = read_functions(ctl_str(a, "file", ""), &count);
	if (!functions)
		return -ENOENT;
	if (count < SETS)
		err = -ERANGE;
	for (i = 0; i < OPS && !err; i++) {
		ops[i] = kzalloc_obj(*ops[i]);
		if (!ops[i]) {
			err = -ENOMEM;
			break;
		}
		ops[i]->func = nothing;
		for (j = 0; j < i && !err; j++, next++)
			err = ftrace_set_filter_ip(ops[i], functions[next].ip, 0, 0) ?:
			      ftrace_set_filter_ip(ops[j], functions[next].ip, 0, 0);
	}
	vfree(functions);
	if (!err)
		err = register_ftrace_functions(ops, OPS);
	registered = !err;
	if (err)
		fts_few_sets(a);
	return err;
}
