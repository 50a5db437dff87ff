// SPDX-License-Identifier: GPL-2.0
/*
 * A module that is compiled for coverage.
 */
#include <linux/module.h>

#include "same.h"

static const struct kernel_param_ops run = { .set = same_run };
module_param_cb(run, &run, NULL, 0200);
MODULE_PARM_DESC(run, "makes so many calls");

static bool has_gone;

static int __init two_init(void)
{
	return 0; /* INIT */
}
module_init(two_init);

static void __exit two_exit(void)
{
	WRITE_ONCE(has_gone, true); /* EXIT */
}
module_exit(two_exit);

MODULE_DESCRIPTION("Compiled for coverage, for the selftests of gcov");
MODULE_LICENSE("GPL");
