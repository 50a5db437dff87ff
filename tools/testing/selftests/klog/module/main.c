// SPDX-License-Identifier: GPL-2.0
/*
 * Commands in through debugfs klog_selftest/ctl, state out through
 * klog_selftest/info, the last message through klog_selftest/last.
 */
#include <linux/debugfs.h>
#include <linux/klog.h>
#include <linux/ktime.h>
#include <linux/minmax.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/seq_file.h>

#include "ctl.h"
#include "klog_selftest.h"

static DEFINE_MUTEX(lock);
static struct dentry *dir;
static u64 cost;

struct batch {
	u64 context, len, count;
};

static void log_batch(void *arg)
{
	struct batch *batch = arg;
	unsigned int i;

	for (i = 0; i < batch->count; i++)
		kst_log(batch->context, batch->len);
}

static void print_text(void *arg)
{
	switch (*(u64 *)arg) {
#define TEXT(n, ...)	case n: klog_printk(__VA_ARGS__); break
#include "texts.h"
	}
}

/* Logs data that is no message. */
static void log_nothing(void *unused)
{
	klog("x", 0);
	klog("x", -1);
	klog(NULL, 1);
}

/* Returns true if a handler is registered: printk.c of klog. */
bool ferro_klog_active(void);

/* The least that 100 texts took, in ns. */
static u64 cost_of_texts(void)
{
	u64 best = U64_MAX;
	int i, k;

	for (i = 0; i < 50; i++) {
		u64 begin = ktime_get_ns();

		for (k = 0; k < 100; k++)
			klog_printk("queue %d stalled for %lld ns\n", k, begin);
		best = min(best, ktime_get_ns() - begin);
	}
	return best;
}

static int log_command(const struct ctl_args *a)
{
	struct batch batch = { .len = 64, .count = 1 };
	u64 cpu = 0, text = 0;
	int ret = ctl_num(a, "cpu", &cpu) ?: ctl_num(a, "ctx", &batch.context) ?:
		  ctl_num(a, "len", &batch.len) ?: ctl_num(a, "count", &batch.count) ?:
		  ctl_num(a, "text", &text);

	if (ret)
		return ret;
	if (batch.len < sizeof(struct kst_head) || batch.len > KST_MAX)
		return -EINVAL;
	if (ctl_is(a, "log"))
		return kst_run(cpu, batch.context, log_batch, &batch);
	if (ctl_is(a, "print"))
		return kst_run(cpu, batch.context, print_text, &text);
	return kst_run(cpu, batch.context, log_nothing, NULL);
}

static int unlocked_command(const struct ctl_args *a)
{
	u64 n = 0, nmi = 0;
	int ret = ctl_num(a, "n", &n) ?: ctl_num(a, "nmi", &nmi);

	if (ret)
		return ret;
	if (ctl_is(a, "log") || ctl_is(a, "print") || ctl_is(a, "nothing"))
		return log_command(a);
	if (ctl_is(a, "cost")) {
		cost = cost_of_texts();
		return 0;
	}
	if (ctl_is(a, "register"))
		return kst_register(ctl_str(a, "which", "a"));
	if (ctl_is(a, "churn"))
		return kst_churn(n);
	if (ctl_is(a, "storm"))
		return kst_storm_start(n, nmi);
	if (ctl_is(a, "stormwait"))
		return kst_storm_wait();
	if (ctl_is(a, "stormend")) {
		kst_storm_end();
		return kst_storm_wait();
	}
	if (ctl_is(a, "stall") || ctl_is(a, "release")) {
		kst_stall(ctl_is(a, "stall"));
		return 0;
	}
	if (ctl_is(a, "unregister")) {
		kst_unregister();
		return 0;
	}
	if (ctl_is(a, "reset")) {
		kst_reset();
		kst_handlers_reset();
		return 0;
	}
	return -EOPNOTSUPP;
}

/* Registering and unregistering run at the same time as a storm, which a command waits for. */
static int command(const struct ctl_args *a)
{
	if (ctl_is(a, "churn") || ctl_is(a, "register") || ctl_is(a, "unregister"))
		return unlocked_command(a);
	guard(mutex)(&lock);
	return unlocked_command(a);
}

static int info_show(struct seq_file *m, void *unused)
{
	unsigned int cpu, context;

	kst_handlers_show(m);
	seq_printf(m, "missed %llu\n", klog_missed());
	seq_printf(m, "active %d\n", ferro_klog_active());
	seq_printf(m, "cost %llu\n", cost);
	seq_printf(m, "nmi %d\n", kst_have_nmi());
	seq_printf(m, "stalled %d\n", kst_stalled());
	for_each_possible_cpu(cpu)
		for (context = 0; context < KST_CONTEXTS; context++)
			seq_printf(m, "logged.%u.%u %llu\n", cpu, context,
				   kst_logged(cpu, context));
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(info);
DEFINE_CTL(command, info);

static ssize_t last_read(struct file *file, char __user *to, size_t count, loff_t *pos)
{
	return kst_last(to, count, pos);
}

static const struct file_operations last_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.read = last_read,
};

static int __init kst_init(void)
{
	int ret = kst_buffers_init() ?: kst_nmi_init();

	if (ret)
		goto out_buffers;
	kst_handlers_reset();
	dir = ctl_init();
	debugfs_create_file("last", 0400, dir, NULL, &last_fops);
	ret = kst_stall_init(dir);
	if (ret)
		goto out_dir;
	return 0;

out_dir:
	debugfs_remove(dir);
	kst_nmi_exit();
out_buffers:
	kst_buffers_exit();
	return ret;
}
module_init(kst_init);

static void __exit kst_exit(void)
{
	debugfs_remove(dir);
	kst_stall_exit();
	kst_storm_end();
	kst_storm_wait();
	unregister_klog_handler();
	kst_nmi_exit();
	kst_buffers_exit();
}
module_exit(kst_exit);

MODULE_DESCRIPTION("klog client and handlers for the selftests");
MODULE_LICENSE("GPL");
