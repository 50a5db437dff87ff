// SPDX-License-Identifier: GPL-2.0
/*
 * Counts calls of a named function: by a struct ftrace_ops and by a kprobe. debugfs
 * ftrace_rust_selftest/ctl takes
 *
 *	ops function=NAME [regs=1]	registers an ops
 *	probe function=NAME		registers a kprobe
 *	stop				unregisters both
 *
 * and info shows their counts.
 */
#include <linux/atomic.h>
#include <linux/ftrace.h>
#include <linux/kprobes.h>

#include "ctl.h"

static atomic_t calls, hits, wrong;
static bool has_ops, has_probe;

static void count(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op, struct ftrace_regs *fregs)
{
	struct pt_regs *regs;

	atomic_inc(&calls);
	if (!(op->flags & FTRACE_OPS_FL_SAVE_REGS))
		return;
	regs = ftrace_get_regs(fregs);
	if (!regs || regs->ip != ip + MCOUNT_INSN_SIZE || *(unsigned long *)regs->sp != parent_ip)
		atomic_inc(&wrong);
}

static struct ftrace_ops ops = { .func = count };

static int hit(struct kprobe *p, struct pt_regs *regs)
{
	atomic_inc(&hits);
	return 0;
}

static struct kprobe probe = { .pre_handler = hit };
static char symbol[KSYM_NAME_LEN];

static int run_ops(const struct ctl_args *a)
{
	char name[KSYM_NAME_LEN];
	u64 regs = 0;
	int ret;

	if (has_ops)
		return -EBUSY;
	ret = ctl_num(a, "regs", &regs);
	if (ret)
		return ret;
	strscpy(name, ctl_str(a, "function", ""));
	ops.flags = regs ? FTRACE_OPS_FL_SAVE_REGS : 0;
	ret = ftrace_set_filter(&ops, name, strlen(name), 1);
	if (ret)
		return ret;
	ret = register_ftrace_function(&ops);
	if (ret)
		ftrace_free_filter(&ops);
	has_ops = !ret;
	return ret;
}

static int run_probe(const struct ctl_args *a)
{
	int ret;

	if (has_probe)
		return -EBUSY;
	strscpy(symbol, ctl_str(a, "function", ""));
	probe.symbol_name = symbol;
	probe.addr = NULL;
	probe.flags = 0;
	ret = register_kprobe(&probe);
	has_probe = !ret;
	return ret;
}

static void stop(void)
{
	if (has_ops) {
		WARN_ON(unregister_ftrace_function(&ops));
		ftrace_free_filter(&ops);
	}
	if (has_probe)
		unregister_kprobe(&probe);
	has_ops = has_probe = false;
	atomic_set(&calls, 0);
	atomic_set(&hits, 0);
	atomic_set(&wrong, 0);
}

static const struct ctl_command commands[] = {
	{ "ops", run_ops },
	{ "probe", run_probe },
	{ "stop", .act = stop },
	{}
};

static int command(const struct ctl_args *a)
{
	return ctl_run(a, commands);
}

static int info_show(struct seq_file *m, void *unused)
{
	seq_printf(m, "calls %d\nhits %d\nwrong %d\n", atomic_read(&calls), atomic_read(&hits), atomic_read(&wrong));
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(info);
DEFINE_CTL(command, info)

static struct dentry *dir;

static int __init selftest_init(void)
{
	dir = ctl_init();
	return 0;
}

static void __exit selftest_exit(void)
{
	debugfs_remove(dir);
	stop();
}

module_init(selftest_init);
module_exit(selftest_exit);
MODULE_DESCRIPTION("Clients of ftrace and kprobes for functions in Rust");
MODULE_LICENSE("GPL");
