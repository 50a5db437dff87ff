// SPDX-License-Identifier: GPL-2.0
/*
 * Sample: the examples of the ftrace document, in C.
 *
 * One ftrace_ops counts the calls of all functions that match a pattern. Two more are registered
 * and unregistered together, and count the functions that fork and that exit.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/ftrace.h>
#include <linux/ferrotrace_ftrace.h>
#include <linux/module.h>
#include <linux/string.h>

static char *pattern = "vfs_*";
module_param(pattern, charp, 0444);
MODULE_PARM_DESC(pattern, "The functions to count, with * for any text");

struct counter {
	struct ftrace_ops ops;
	atomic64_t calls;
};

/* Called without recursion and with RCU watching, because of the flags below. */
static void count(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *ops, struct ftrace_regs *fregs)
{
	atomic64_inc(&container_of(ops, struct counter, ops)->calls);
}

#define COUNTER { .ops = { .func = count, .flags = FTRACE_OPS_FL_RECURSION | FTRACE_OPS_FL_RCU } }

static struct counter matching = COUNTER, forks = COUNTER, exits = COUNTER;

static struct ftrace_ops *both[] = { &forks.ops, &exits.ops };

/* Sets the filter of an ops. @name: a name or a pattern. */
static int set_filter(struct ftrace_ops *ops, const char *name)
{
	/* ftrace_set_filter() changes the text. */
	char *text = kstrdup(name, GFP_KERNEL);
	int err = text ? ftrace_set_filter(ops, text, strlen(text), 1) : -ENOMEM;

	kfree(text);
	return err;
}

static void free_filters(void)
{
	ftrace_free_filter(&matching.ops);
	ftrace_free_filter(&forks.ops);
	ftrace_free_filter(&exits.ops);
}

static int __init trace_fork_c_init(void)
{
	int err;

	err = set_filter(&matching.ops, pattern);
	if (err) {
		pr_err("no function is called %s: %d\n", pattern, err);
		return err;
	}
	err = set_filter(&forks.ops, "kernel_clone");
	if (!err)
		err = set_filter(&exits.ops, "do_exit");
	if (!err)
		err = register_ftrace_function(&matching.ops);
	if (err)
		goto free;
	/* Registers all or none, and changes code once. */
	err = register_ftrace_functions(both, ARRAY_SIZE(both));
	if (!err)
		return 0;
	unregister_ftrace_function(&matching.ops);
free:
	free_filters();
	return err;
}

static void __exit trace_fork_c_exit(void)
{
	/* Waits once for the callbacks of both. */
	unregister_ftrace_functions(both, ARRAY_SIZE(both));
	unregister_ftrace_function(&matching.ops);
	free_filters();
	pr_info("%lld calls of %s, %lld forks, %lld exits\n", atomic64_read(&matching.calls), pattern,
		atomic64_read(&forks.calls), atomic64_read(&exits.calls));
}

module_init(trace_fork_c_init);
module_exit(trace_fork_c_exit);

MODULE_AUTHOR("Ferrotrace maintainers");
MODULE_DESCRIPTION("Sample: counts calls of functions");
MODULE_LICENSE("GPL");
