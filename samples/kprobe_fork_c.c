// SPDX-License-Identifier: GPL-2.0
/*
 * Sample: the kprobes example of the kprobes document, for today's header.
 *
 * Probes the function that forks. Its handlers write the registers and the stack of the first calls
 * to the log, and count all calls.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/kprobes.h>
#include <linux/module.h>

static char *symbol = "kernel_clone";
module_param(symbol, charp, 0444);
MODULE_PARM_DESC(symbol, "The function to probe");

static unsigned int reports = 3;
module_param(reports, uint, 0444);
MODULE_PARM_DESC(reports, "How many hits to report in the log");

static atomic64_t hits;

/* Runs before the instruction: prints registers and the stack. */
static int handler_pre(struct kprobe *p, struct pt_regs *regs)
{
	if (atomic64_inc_return(&hits) > reports)
		return 0;
	pr_info("before %pS: ip %lx, sp %lx, flags %lx\n", p->addr, regs->ip, regs->sp,
		regs->flags);
	dump_stack();
	return 0;
}

/* Runs after the instruction. */
static void handler_post(struct kprobe *p, struct pt_regs *regs, unsigned long flags)
{
	if (atomic64_read(&hits) <= reports)
		pr_info("after %pS: flags %lx\n", p->addr, regs->flags);
}

static struct kprobe probe = {
	.pre_handler = handler_pre,
	.post_handler = handler_post,
};

static int __init kprobe_fork_c_init(void)
{
	int err;

	probe.symbol_name = symbol;
	err = register_kprobe(&probe);
	if (err) {
		pr_err("no probe on %s: %d\n", symbol, err);
		return err;
	}
	pr_info("probe at %pS\n", probe.addr);
	return 0;
}

static void __exit kprobe_fork_c_exit(void)
{
	unregister_kprobe(&probe);
	pr_info("%lld hits, %lu missed\n", atomic64_read(&hits), probe.nmissed);
}

module_init(kprobe_fork_c_init);
module_exit(kprobe_fork_c_exit);

MODULE_AUTHOR("Ferrotrace maintainers");
MODULE_DESCRIPTION("Sample: a kprobe that dumps the stack of forks");
MODULE_LICENSE("GPL");
