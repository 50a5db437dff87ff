// SPDX-License-Identifier: GPL-2.0
/*
 * kprobes_selftest_target: a module that is probed, and goes. Writing its parameter "call" calls its functions, reading
 * gives what they have returned.
 */
#include <linux/module.h>
#include <linux/moduleparam.h>

/* One that ftrace has a place in. */
static noinline __noclone int kst_target_module_entry(int a)
{
	barrier();
	return a + 10;
}

static noinline __noclone __init int kst_target_module_init_function(int a)
{
	barrier();
	return a + 20;
}

static int from_init;

static int call(const char *value, const struct kernel_param *param)
{
	int (*function)(int) = kst_target_module_entry;

	/* called as others would */
	OPTIMIZER_HIDE_VAR(function);
	return function(1) == 11 ? 0 : -EIO;
}

static int show(char *buffer, const struct kernel_param *param)
{
	return sysfs_emit(buffer, "%d\n", from_init);
}

static const struct kernel_param_ops call_ops = { .set = call, .get = show };
module_param_cb(call, &call_ops, NULL, 0600);

static int __init kst_target_module_init(void)
{
	int (*function)(int) = kst_target_module_init_function;

	OPTIMIZER_HIDE_VAR(function);
	from_init = function(2);
	return 0;
}
module_init(kst_target_module_init);

static void __exit kst_target_module_exit(void)
{
}
module_exit(kst_target_module_exit);

MODULE_AUTHOR("Ferrotrace maintainers");
MODULE_DESCRIPTION("A module that is probed");
MODULE_LICENSE("GPL v2");
