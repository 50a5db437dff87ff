// SPDX-License-Identifier: GPL-2.0
/*
 * A livepatch: replaces cmdline_proc_show() of the kernel, and get_blocks() of coverage_target. Both say
 * "patched" then. Reading the parameter "function" returns the address and the symbol of the replacement
 * of the former.
 */
#include <linux/livepatch.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/seq_file.h>

static int patched_cmdline(struct seq_file *file, void *unused)
{
	seq_puts(file, "patched\n");
	return 0;
}

static int patched_blocks(char *text, const struct kernel_param *param)
{
	return sprintf(text, "patched\n");
}

static struct klp_func kernel_functions[] = {
	{ .old_name = "cmdline_proc_show", .new_func = patched_cmdline },
	{}
};

static struct klp_func module_functions[] = {
	{ .old_name = "get_blocks", .new_func = patched_blocks },
	{}
};

static struct klp_object objects[] = {
	{ .funcs = kernel_functions },
	{ .name = "coverage_target", .funcs = module_functions },
	{}
};

static struct klp_patch patch = { .mod = THIS_MODULE, .objs = objects };

static int get_function(char *text, const struct kernel_param *param)
{
	return sprintf(text, "%lx %pS\n", (unsigned long)patched_cmdline, patched_cmdline);
}

static const struct kernel_param_ops ops = { .get = get_function };
module_param_cb(function, &ops, NULL, 0400);

static int __init enable(void)
{
	return klp_enable_patch(&patch);
}
module_init(enable);

/* The patch has been disabled: until then it holds a reference. */
static void __exit leave(void)
{
}
module_exit(leave);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Livepatch of the selftests of live coverage");
MODULE_INFO(livepatch, "Y");
