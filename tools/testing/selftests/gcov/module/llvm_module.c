// SPDX-License-Identifier: GPL-2.0
/*
 * A module with an object that LLVM has compiled for coverage.
 */
#include <linux/kstrtox.h>
#include <linux/module.h>

#include "llvm.h"

static int run(const char *text, const struct kernel_param *param)
{
	unsigned int calls;
	int err = kstrtouint(text, 0, &calls);

	if (!err)
		gcov_llvm(calls);
	return err;
}

static const struct kernel_param_ops run_ops = { .set = run };
module_param_cb(run, &run_ops, NULL, 0200);
MODULE_PARM_DESC(run, "makes so many calls");

MODULE_DESCRIPTION("Compiled for coverage by LLVM, for the selftests of gcov");
MODULE_LICENSE("GPL");
