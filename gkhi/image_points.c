// SPDX-License-Identifier: GPL-2.0
/*
 * Hook points that only a patched kernel has; <linux/gkhi_points.h> describes them.
 */
#include <linux/gkhi_points.h>
#include <linux/init.h>

#include "points.h"

#if defined(CONFIG_X86_64) && !defined(CONFIG_UML)
DEFINE_GKHOOK(int3, GKH_ATOMIC, "regs");
DEFINE_GKHOOK(debug, GKH_ATOMIC, "regs, dr6");
DEFINE_GKHOOK(kernel_fault, GKH_TASK, "regs, trapnr, address");
#ifdef CONFIG_DYNAMIC_FTRACE
DEFINE_GKHOOK(trampoline_update, GKH_SLEEP, "ops");
DEFINE_GKHOOK(trampoline_free, GKH_SLEEP, "ops");
DEFINE_GKHOOK(trampoline_set, GKH_SLEEP, "change");
DEFINE_GKHOOK(trampoline_sets, GKH_SLEEP, "step");
DEFINE_GKHOOK(trampoline_data, GKH_SLEEP, "change");
#endif
#endif
#if defined(CONFIG_GCOV_BUILTIN) || (defined(CONFIG_GCOV_KERNEL) && defined(CONFIG_CC_IS_GCC))
DEFINE_GKHOOK(gcov_object, GKH_SLEEP, "info");
#endif
#if defined(CONFIG_GCOV_BUILTIN) || (defined(CONFIG_GCOV_KERNEL) && defined(CONFIG_CC_IS_CLANG))
DEFINE_GKHOOK(llvm_gcov_object, GKH_SLEEP, "writeout, flush");
#endif

static struct gkhook *const points[] __initconst = {
#if defined(CONFIG_X86_64) && !defined(CONFIG_UML)
	GKHOOK(int3), GKHOOK(debug), GKHOOK(kernel_fault),
#ifdef CONFIG_DYNAMIC_FTRACE
	GKHOOK(trampoline_update), GKHOOK(trampoline_free),
	GKHOOK(trampoline_set), GKHOOK(trampoline_sets), GKHOOK(trampoline_data),
#endif
#endif
#if defined(CONFIG_GCOV_BUILTIN) || (defined(CONFIG_GCOV_KERNEL) && defined(CONFIG_CC_IS_GCC))
	GKHOOK(gcov_object),
#endif
#if defined(CONFIG_GCOV_BUILTIN) || (defined(CONFIG_GCOV_KERNEL) && defined(CONFIG_CC_IS_CLANG))
	GKHOOK(llvm_gcov_object),
#endif
};

static int __init image_points_init(void)
{
	gkh_identify_points(points, ARRAY_SIZE(points));
	return 0;
}
early_initcall(image_points_init);
