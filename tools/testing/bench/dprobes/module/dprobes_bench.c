// SPDX-License-Identifier: GPL-2.0
/*
 * A probe that does nothing, at a place that the user names.
 */
#include <linux/kprobes.h>
#include <linux/module.h>

static char *symbol = "__x64_sys_getpgid";
module_param(symbol, charp, 0444);
MODULE_PARM_DESC(symbol, "The function");

static unsigned int offset;
module_param(offset, uint, 0444);
MODULE_PARM_DESC(offset, "Bytes from its start");

static bool post;
module_param(post, bool, 0444);
MODULE_PARM_DESC(post, "Whether it also does nothing after the instruction");

static int before(struct kprobe *p, struct pt_regs *regs)
{
	return 0;
}

static void after(struct kprobe *p, struct pt_regs *regs, unsigned long flags)
{
}

static struct kprobe probe = {
	.pre_handler = before,
};

static int __init bench_init(void)
{
	probe.symbol_name = symbol;
	probe.offset = offset;
	if (post)
		probe.post_handler = after;
	return register_kprobe(&probe);
}

static void __exit bench_exit(void)
{
	unregister_kprobe(&probe);
}

module_init(bench_init);
module_exit(bench_exit);
MODULE_DESCRIPTION("A probe that does nothing");
MODULE_LICENSE("GPL");
