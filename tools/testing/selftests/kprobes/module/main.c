// SPDX-License-Identifier: GPL-2.0
/*
 * debugfs kprobes_selftest/: "cases" names the cases, "run" runs the one that is written and then reads its result.
 *
 * After each case the module's text has to be what it was before.
 */
#include <linux/debugfs.h>
#include <linux/delay.h>
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>

#include "kprobes_selftest.h"

unsigned int kst_ms = 2000;
module_param_named(ms, kst_ms, uint, 0644);
MODULE_PARM_DESC(ms, "milliseconds that each case under load takes");

unsigned int kst_many_probes = 1000;
module_param_named(many, kst_many_probes, uint, 0644);
MODULE_PARM_DESC(many, "probes in the batch of load.batch");

static const struct kst_case * const lists[] = {
	kst_refuse_cases, kst_several_cases, kst_context_cases, kst_ret_cases,
	kst_debugfs_cases, kst_unload_cases, kst_load_cases, kst_jprobe_cases, kst_jprobe_register_cases,
	kst_fault_cases, kst_races_cases, kst_memory_cases, kst_forms_cases, kst_death_cases,
	kst_declared_cases,
};

static DEFINE_MUTEX(running);
static char result[2048];
static bool failed, skipped;

static void note(const char *fmt, va_list args)
{
	size_t len = strlen(result);

	vscnprintf(result + len, sizeof(result) - len, fmt, args);
}

void kst_say(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	note(fmt, args);
	va_end(args);
}

void kst_fail(const char *file, int line, const char *what, long a, long b)
{
	failed = true;
	kst_say("%s:%d: %s (%ld, %ld)\n", kbasename(file), line, what, a, b);
}

void kst_skip(const char *why)
{
	skipped = true;
	kst_say("%s\n", why);
}

static void *text_before;

/* Whether the module's text is what it was; where not, the first such address. */
static const u8 *changed_text(void)
{
	const u8 *text = THIS_MODULE->mem[MOD_TEXT].base;
	unsigned int i, size = THIS_MODULE->mem[MOD_TEXT].size;

	if (!memcmp(text, text_before, size))
		return NULL;
	for (i = 0; i < size; i++)
		if (text[i] != ((const u8 *)text_before)[i])
			return text + i;
	return NULL;
}

/* Steps of one case keep their probes, and a tracer its places. */
static bool is_step(const char *name)
{
	return str_has_prefix(name, "debugfs.") || str_has_prefix(name, "unload.") ||
	       str_has_prefix(name, "jprobe.traced_");
}

static void check_text(void)
{
	const u8 *where = changed_text();
	int tries;

	/* taking a jump away may take some time */
	for (tries = 0; where && tries < 1000; tries++) {
		msleep(20);
		where = changed_text();
	}
	if (!where)
		return;
	kst_fail(__FILE__, __LINE__, "text is as before", 0, *where);
	kst_say("at %pS\n", where);
}

static bool run_row(const char *name)
{
	unsigned int i;

	if (!str_has_prefix(name, "insn."))
		return false;
	for (i = 0; kst_row_name(i); i++)
		if (!strcmp(kst_row_name(i), name + strlen("insn."))) {
			kst_row_run(i);
			return true;
		}
	return false;
}

static bool run_forms(const char *name)
{
	unsigned int i;

	if (!str_has_prefix(name, "forms."))
		return false;
	for (i = 0; kst_form_group(i); i++)
		if (!strcmp(kst_form_group(i), name + strlen("forms."))) {
			kst_forms_run(kst_form_group(i));
			return true;
		}
	return false;
}

static bool run_case(const char *name)
{
	const struct kst_case *c;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(lists); i++)
		for (c = lists[i]; c->name; c++)
			if (!strcmp(c->name, name)) {
				c->run();
				return true;
			}
	return run_row(name) || run_forms(name);
}

static ssize_t run_write(struct file *file, const char __user *from, size_t count, loff_t *pos)
{
	char name[64] = "";

	if (count >= sizeof(name))
		return -EINVAL;
	if (copy_from_user(name, from, count))
		return -EFAULT;
	guard(mutex)(&running);
	result[0] = '\0';
	failed = false;
	skipped = false;
	/* for what the kernel says of it */
	pr_info("kprobes_selftest: RUN %s\n", strim(name));
	if (!run_case(strim(name)))
		return -ENOENT;
	if (!is_step(strim(name)))
		check_text();
	return count;
}

static int run_show(struct seq_file *m, void *unused)
{
	guard(mutex)(&running);
	seq_printf(m, "%s\n%s", failed ? "failed" : skipped ? "skipped" : "ok", result);
	return 0;
}

static int run_open(struct inode *inode, struct file *file)
{
	return single_open(file, run_show, NULL);
}

static const struct file_operations run_fops = {
	.owner = THIS_MODULE,
	.open = run_open,
	.read = seq_read,
	.llseek = seq_lseek,
	.write = run_write,
	.release = single_release,
};

static int cases_show(struct seq_file *m, void *unused)
{
	const struct kst_case *c;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(lists); i++)
		for (c = lists[i]; c->name; c++)
			seq_printf(m, "%s\n", c->name);
	for (i = 0; kst_row_name(i); i++)
		seq_printf(m, "insn.%s\n", kst_row_name(i));
	for (i = 0; kst_form_group(i); i++)
		seq_printf(m, "forms.%s\n", kst_form_group(i));
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(cases);

static struct dentry *dir;

static int __init kst_init(void)
{
	const struct module_memory *text = &THIS_MODULE->mem[MOD_TEXT];

	kst_init_text = kst_init;
	text_before = vmalloc(text->size);
	if (!text_before)
		return -ENOMEM;
	memcpy(text_before, text->base, text->size);
	dir = debugfs_create_dir("kprobes_selftest", NULL);
	debugfs_create_file("cases", 0400, dir, NULL, &cases_fops);
	debugfs_create_file("run", 0600, dir, NULL, &run_fops);
	return 0;
}
module_init(kst_init);

static void __exit kst_exit(void)
{
	debugfs_remove(dir);
	vfree(text_before);
}
module_exit(kst_exit);

MODULE_AUTHOR("Ferrotrace maintainers");
MODULE_DESCRIPTION("Tests of kprobes");
MODULE_LICENSE("GPL v2");
