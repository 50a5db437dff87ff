// SPDX-License-Identifier: GPL-2.0
/*
 * A module that is compiled for coverage where the kernel has it, and does nothing.
 */
#include <linux/module.h>

static int __init gcov_init(void)
{
	return 0;
}
module_init(gcov_init);

static void __exit gcov_exit(void)
{
}
module_exit(gcov_exit);

MODULE_AUTHOR("Ferrotrace maintainers");
MODULE_DESCRIPTION("A module that comes and goes");
MODULE_LICENSE("GPL v2");
