// SPDX-License-Identifier: GPL-2.0
/*
 * kprobes_selftest_forgetful: a client that goes without having unregistered its probes.
 */
#include <linux/kprobes.h>
#include <linux/module.h>

static unsigned long hits;

static int on_hit(struct kprobe *p, struct pt_regs *regs)
{
	hits++;
	return 0;
}

static int on_return(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	hits++;
	return 0;
}

static struct kprobe probe = { .symbol_name = "kernel_clone", .pre_handler = on_hit };
static struct kretprobe return_probe = { .kp.symbol_name = "hrtimer_nanosleep", .handler = on_return };

static int __init forgetful_init(void)
{
	int ret = register_kprobe(&probe);

	return ret ?: register_kretprobe(&return_probe);
}
module_init(forgetful_init);

static void __exit forgetful_exit(void)
{
}
module_exit(forgetful_exit);

MODULE_AUTHOR("Ferrotrace maintainers");
MODULE_DESCRIPTION("A client of kprobes that forgets them");
MODULE_LICENSE("GPL v2");
