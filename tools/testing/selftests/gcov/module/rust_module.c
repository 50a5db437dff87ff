// SPDX-License-Identifier: GPL-2.0
/*
 * A module with an object that rustc has compiled for coverage, and this one, by the kernel's compiler.
 */
#include <linux/kstrtox.h>
#include <linux/module.h>

unsigned int gcov_rust(unsigned int calls);

static int run(const char *text, const struct kernel_param *param)
{
	unsigned int calls;
	int err = kstrtouint(text, 0, &calls);

	if (!err)
		gcov_rust(calls); /* RUN */
	return err;
}

static const struct kernel_param_ops run_ops = { .set = run };
module_param_cb(run, &run_ops, NULL, 0200);
MODULE_PARM_DESC(run, "makes so many calls");

static void __exit rust_exit(void)
{
	gcov_rust(2);
}
module_exit(rust_exit);

static int __init rust_init(void)
{
	return 0;
}
module_init(rust_init);

MODULE_DESCRIPTION("In Rust, compiled for coverage, for the selftests of gcov");
MODULE_LICENSE("GPL");
