// SPDX-License-Identifier: GPL-2.0
/*
 * debugfs ftrace_tramp_selftest/ctl:
 *
 *	register, unregister	some ops on the functions; allocations may be failing
 *	attach, release		per-function data; allocations may be failing
 *	attach_all file=FILE	data for all functions of the kernel that the file lists
 *	call			fails unless each function calls with its data as often as
 *				it is called
 *	detach_all		detaches the data of "attach_all"
 *	kill at=ADDRESS		calls ftrace_kill(), by its address: ftrace gives up
 *
 * and the commands of spinning.c and many.c. "called" has the target of each function's call.
 */
#include <linux/debugfs.h>
#include <linux/ferrotrace_ftrace.h>
#include <linux/kallsyms.h>
#include <linux/string.h>

#include "ctl.h"
#include "functions.h"
#include "tramp_selftest.h"

static const void * const functions[] = { fts_a, fts_b, fts_sum };

static void nothing(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op, struct ftrace_regs *fregs)
{
}

static void nothing_with(unsigned long ip, unsigned long parent_ip, void *data, struct ftrace_regs *fregs)
{
}

static struct ftrace_ops ops[4];
static struct ftrace_data_ops data_ops = { .func = nothing_with };

static void forget(void)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(ops); i++)
		ftrace_free_filter(&ops[i]);
	memset(ops, 0, sizeof(ops));
}

static int register_some(const struct ctl_args *a)
{
	struct ftrace_ops *list[ARRAY_SIZE(ops)];
	unsigned int i, f;
	int err = 0;

	for (i = 0; i < ARRAY_SIZE(ops) && !err; i++) {
		ops[i] = (struct ftrace_ops){ .func = nothing, .flags = i == 1 ? FTRACE_OPS_FL_SAVE_REGS : 0 };
		list[i] = &ops[i];
		for (f = 0; f < ARRAY_SIZE(functions) && !err; f++)
			if (f != i)
				err = ftrace_set_filter_ip(&ops[i], (unsigned long)functions[f], 0, 0);
	}
	err = err ?: register_ftrace_functions(list, ARRAY_SIZE(ops));
	if (err)
		forget();
	return err;
}

static int unregister_all(const struct ctl_args *a)
{
	struct ftrace_ops *list[ARRAY_SIZE(ops)];
	unsigned int i;
	int err;

	for (i = 0; i < ARRAY_SIZE(ops); i++)
		list[i] = &ops[i];
	err = unregister_ftrace_functions(list, ARRAY_SIZE(ops));
	if (!err)
		forget();
	return err;
}

static int attach(const struct ctl_args *a)
{
	struct ftrace_data data[ARRAY_SIZE(functions)];
	unsigned int f;
	int err;

	for (f = 0; f < ARRAY_SIZE(functions); f++)
		data[f] = (struct ftrace_data){ (unsigned long)functions[f], (void *)functions[f] };
	err = ftrace_data_attach(&data_ops, data, ARRAY_SIZE(data));
	/* The memory that it keeps for the next call was not in the state before. */
	if (err)
		ftrace_data_release(&data_ops);
	return err;
}

static void release(void)
{
	ftrace_data_release(&data_ops);
}

static struct ftrace_data *all;
static unsigned int all_count;
static unsigned long right, wrong;

static void count(unsigned long ip, unsigned long parent_ip, void *data, struct ftrace_regs *fregs)
{
	struct ftrace_data *own = data;

	/* The site is that, or the instruction after it. */
	if (own < all || own >= all + all_count || ip - own->ip > 8)
		wrong++;
	else if (ip - (unsigned long)fts_a <= 8)
		right++;
}

static struct ftrace_data_ops all_ops = { .func = count };

static int attach_all(const struct ctl_args *a)
{
	int err = -ENOENT;

	if (all)
		return -EBUSY;
	all = read_functions(ctl_str(a, "file", ""), &all_count);
	right = wrong = 0;
	if (all)
		err = ftrace_data_attach(&all_ops, all, all_count);
	if (err) {
		ftrace_data_release(&all_ops);
		vfree(all);
		all = NULL;
	}
	return err;
}

static int call(const struct ctl_args *a)
{
	long i, sum = 0;

	right = 0;
	for (i = 0; i < 1000; i++)
		sum += fts_a(i);
	return sum == 999 * 500 && right == 1000 && !wrong ? 0 : -EIO;
}

static int detach_all(const struct ctl_args *a)
{
	unsigned long *ips = vmalloc_array(all_count, sizeof(*ips));
	unsigned int i;
	int err;

	if (!ips)
		return -ENOMEM;
	for (i = 0; i < all_count; i++)
		ips[i] = all[i].ip;
	err = ftrace_data_detach(&all_ops, ips, all_count);
	vfree(ips);
	if (err)
		return err;
	/* None is left: a call is no longer seen. */
	right = 0;
	fts_a(1);
	if (right)
		err = -EIO;
	ftrace_data_release(&all_ops);
	vfree(all);
	all = NULL;
	return err;
}

static int kill(const struct ctl_args *a)
{
	char name[KSYM_SYMBOL_LEN];
	u64 at = 0;
	int err = ctl_num(a, "at", &at);

	if (err)
		return err;
	sprint_symbol_no_offset(name, at);
	if (strcmp(name, "ftrace_kill"))
		return -EINVAL;
	((void (*)(void))(unsigned long)at)();
	return 0;
}

static const struct ctl_command list[] = {
	{ "register", register_some },
	{ "unregister", unregister_all },
	{ "attach", attach },
	{ "release", .act = release },
	{ "attach_all", attach_all },
	{ "call", call },
	{ "detach_all", detach_all },
	{ "kill", kill },
	{ "spin", fts_spin },
	{ "unspin", fts_unspin },
	{ "watch", fts_watch },
	{ "unwatch", fts_unwatch },
	{ "trace_few", fts_trace_few },
	{ "many_sets", fts_many_sets },
	{ "trace_many", fts_trace_many },
	{ "few_sets", fts_few_sets },
	{ }
};

static int command(const struct ctl_args *a)
{
	static DEFINE_MUTEX(lock);

	guard(mutex)(&lock);
	return ctl_run(a, list);
}

static ssize_t ctl_write(struct file *file, const char __user *from, size_t count, loff_t *pos)
{
	return ctl_do(from, count, command);
}

static const struct file_operations ctl_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.write = ctl_write,
};

/* Shows the call of each function, as enabled_functions names it. */
static int called_show(struct seq_file *m, void *unused)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(functions); i++)
		seq_printf(m, "%ps %pS\n", functions[i], fts_called(functions[i]));
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(called);

void fts_commands_init(struct dentry *dir)
{
	debugfs_create_file("ctl", 0200, dir, NULL, &ctl_fops);
	debugfs_create_file("called", 0400, dir, NULL, &called_fops);
	debugfs_create_bool("spun", 0200, dir, &fts_spun);
}
