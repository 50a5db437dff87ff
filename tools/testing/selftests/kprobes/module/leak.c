// SPDX-License-Identifier: GPL-2.0
/* kprobes_selftest_leak: a client that is unloaded without unregistering its probes. */
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/moduleparam.h>

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

static char *symbol = "kernel_clone";
module_param(symbol, charp, 0444);
MODULE_PARM_DESC(symbol, "where the probe is that it leaves");

static struct kprobe probe = { .pre_handler = on_hit };
static struct kretprobe return_probe = { .kp.symbol_name = "hrtimer_nanosleep", .handler = on_return };

static int __init leak_init(void)
{
	int ret;

	probe.symbol_name = symbol;
	ret = register_kprobe(&probe);
	return ret ?: register_kretprobe(&return_probe);
}
module_init(leak_init);

static void __exit leak_exit(void)
{
}
module_exit(leak_exit);

MODULE_AUTHOR("Ferrotrace maintainers");
MODULE_DESCRIPTION("A client of kprobes that forgets them");
MODULE_LICENSE("GPL v2");
