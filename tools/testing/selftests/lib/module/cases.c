// SPDX-License-Identifier: GPL-2.0
#include <linux/debugfs.h>
#include <linux/module.h>
#include <linux/seq_file.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include "cases.h"

unsigned int case_ms = 2000;
module_param_named(ms, case_ms, uint, 0644);
MODULE_PARM_DESC(ms, "milliseconds that each case under load takes");

DEFINE_MUTEX(cases_lock);
static const struct test_cases *cases;
static char result[2048];
static bool failed, skipped;

void case_say(const char *fmt, ...)
{
	size_t len = strlen(result);
	va_list args;

	va_start(args, fmt);
	vscnprintf(result + len, sizeof(result) - len, fmt, args);
	va_end(args);
}

void case_fail(const char *file, int line, const char *what, long a, long b)
{
	failed = true;
	case_say("%s:%d: %s (%ld, %ld)\n", kbasename(file), line, what, a, b);
}

void case_skip(const char *why)
{
	skipped = true;
	case_say("%s\n", why);
}

static bool run_case(const char *name)
{
	const struct test_case * const *list, *c;

	for (list = cases->lists; *list; list++)
		for (c = *list; c->name; c++)
			if (!strcmp(c->name, name)) {
				c->run();
				return true;
			}
	return cases->run_other && cases->run_other(name);
}

static ssize_t run_write(struct file *file, const char __user *from, size_t count, loff_t *pos)
{
	char text[64] = "", *name;

	if (count >= sizeof(text))
		return -EINVAL;
	if (copy_from_user(text, from, count))
		return -EFAULT;
	name = strim(text);
	guard(mutex)(&cases_lock);
	result[0] = '\0';
	failed = false;
	skipped = false;
	/* for the kernel's messages about it */
	pr_info(KBUILD_MODNAME ": RUN %s\n", name);
	if (!run_case(name))
		return -ENOENT;
	if (cases->after)
		cases->after(name);
	return count;
}

static int run_show(struct seq_file *m, void *unused)
{
	guard(mutex)(&cases_lock);
	seq_printf(m, "%s\n%s", failed ? "failed" : skipped ? "skipped" : "ok", result);
	return 0;
}

DEFINE_SHOW_STORE_ATTRIBUTE(run);

static int cases_show(struct seq_file *m, void *unused)
{
	const struct test_case * const *list, *c;

	for (list = cases->lists; *list; list++)
		for (c = *list; c->name; c++)
			seq_printf(m, "%s\n", c->name);
	if (cases->show_others)
		cases->show_others(m);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(cases);

struct dentry *cases_init(const struct test_cases *all)
{
	struct dentry *dir = debugfs_create_dir(KBUILD_MODNAME, NULL);

	cases = all;
	debugfs_create_file("cases", 0400, dir, NULL, &cases_fops);
	debugfs_create_file("run", 0600, dir, NULL, &run_fops);
	return dir;
}
