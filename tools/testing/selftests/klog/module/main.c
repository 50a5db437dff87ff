// SPDX-License-Identifier: GPL-2.0
/*
 * Commands in through debugfs klog_selftest/ctl, state out through
 * klog_selftest/info, the last message through klog_selftest/last.
 */
#include <linux/debugfs.h>
#include <linux/klog.h>
#include <linux/kstrtox.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "klog_selftest.h"

static DEFINE_MUTEX(lock);
static struct dentry *dir;

struct args {
	char *verb;
	char *word[8];
	unsigned int n;
};

static const char *str(const struct args *a, const char *key, const char *def)
{
	size_t len = strlen(key);
	unsigned int i;

	for (i = 0; i < a->n; i++)
		if (!strncmp(a->word[i], key, len) && a->word[i][len] == '=')
			return a->word[i] + len + 1;
	return def;
}

static int num(const struct args *a, const char *key, unsigned int *val)
{
	const char *s = str(a, key, NULL);

	return s ? kstrtouint(s, 0, val) : 0;
}

struct batch {
	unsigned int context, len, count;
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
	switch (*(unsigned int *)arg) {
#define TEXT(n, ...)	case n: klog_printk(__VA_ARGS__); break
#include "texts.h"
	}
}

/* What is no message. */
static void log_nothing(void *unused)
{
	klog("x", 0);
	klog("x", -1);
	klog(NULL, 1);
}

static int log_command(const struct args *a)
{
	struct batch batch = { .len = 64, .count = 1 };
	unsigned int cpu = 0, text = 0;
	int ret = num(a, "cpu", &cpu) ?: num(a, "ctx", &batch.context) ?:
		  num(a, "len", &batch.len) ?: num(a, "count", &batch.count) ?:
		  num(a, "text", &text);

	if (ret)
		return ret;
	if (batch.len < sizeof(struct kst_head) || batch.len > KST_MAX)
		return -EINVAL;
	if (!strcmp(a->verb, "log"))
		return kst_run(cpu, batch.context, log_batch, &batch);
	if (!strcmp(a->verb, "print"))
		return kst_run(cpu, batch.context, print_text, &text);
	return kst_run(cpu, batch.context, log_nothing, NULL);
}

static int command(const struct args *a)
{
	unsigned int n = 0, nmi = 0;
	int ret = num(a, "n", &n) ?: num(a, "nmi", &nmi);

	if (ret)
		return ret;
	if (!strcmp(a->verb, "log") || !strcmp(a->verb, "print") || !strcmp(a->verb, "nothing"))
		return log_command(a);
	if (!strcmp(a->verb, "register"))
		return kst_register(str(a, "which", "a"));
	if (!strcmp(a->verb, "churn"))
		return kst_churn(n);
	if (!strcmp(a->verb, "storm"))
		return kst_storm_start(n, nmi);
	if (!strcmp(a->verb, "stormwait"))
		return kst_storm_wait();
	if (!strcmp(a->verb, "stormend")) {
		kst_storm_end();
		return kst_storm_wait();
	}
	if (!strcmp(a->verb, "stall") || !strcmp(a->verb, "release")) {
		kst_stall(!strcmp(a->verb, "stall"));
		return 0;
	}
	if (!strcmp(a->verb, "unregister")) {
		kst_unregister();
		return 0;
	}
	if (!strcmp(a->verb, "reset")) {
		kst_reset();
		kst_handlers_reset();
		return 0;
	}
	return -EOPNOTSUPP;
}

static ssize_t ctl_write(struct file *file, const char __user *from, size_t count, loff_t *pos)
{
	struct args a = {};
	char *line, *rest, *word;
	int ret;

	if (count > 256)
		return -E2BIG;
	line = memdup_user_nul(from, count);
	if (IS_ERR(line))
		return PTR_ERR(line);

	rest = line;
	while ((word = strsep(&rest, "\n ")) != NULL) {
		if (!*word)
			continue;
		if (!a.verb)
			a.verb = word;
		else if (a.n < ARRAY_SIZE(a.word))
			a.word[a.n++] = word;
	}
	if (!a.verb) {
		ret = -EINVAL;
	} else if (!strcmp(a.verb, "churn") || !strcmp(a.verb, "register") ||
		   !strcmp(a.verb, "unregister")) {
		/* beside a storm that somebody waits for */
		ret = command(&a);
	} else {
		mutex_lock(&lock);
		ret = command(&a);
		mutex_unlock(&lock);
	}
	kfree(line);
	return ret ?: count;
}

static const struct file_operations ctl_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.write = ctl_write,
};

static int info_show(struct seq_file *m, void *unused)
{
	unsigned int cpu, context;

	kst_handlers_show(m);
	seq_printf(m, "missed %llu\n", klog_missed());
	seq_printf(m, "nmi %d\n", kst_have_nmi());
	seq_printf(m, "stalled %d\n", kst_stalled());
	for_each_possible_cpu(cpu)
		for (context = 0; context < KST_CONTEXTS; context++)
			seq_printf(m, "logged.%u.%u %llu\n", cpu, context,
				   kst_logged(cpu, context));
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(info);

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
	int ret = kst_buffers_init();

	if (ret)
		return ret;
	ret = kst_nmi_init();
	if (ret)
		goto out_buffers;
	kst_handlers_reset();
	dir = debugfs_create_dir("klog_selftest", NULL);
	if (IS_ERR(dir)) {
		ret = PTR_ERR(dir);
		goto out_nmi;
	}
	debugfs_create_file("ctl", 0200, dir, NULL, &ctl_fops);
	debugfs_create_file("info", 0400, dir, NULL, &info_fops);
	debugfs_create_file("last", 0400, dir, NULL, &last_fops);
	ret = kst_stall_init(dir);
	if (ret)
		goto out_dir;
	return 0;

out_dir:
	debugfs_remove(dir);
out_nmi:
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
