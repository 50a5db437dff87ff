// SPDX-License-Identifier: GPL-2.0
/*
 * Sample: the kretprobes example of the kprobes document, for today's header.
 *
 * Probes the return of the function that opens files. Counts the calls that fail, and writes the
 * first of them to the log.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/sched.h>

static char *symbol = "do_sys_openat2";
module_param(symbol, charp, 0444);
MODULE_PARM_DESC(symbol, "The function to probe");

static int max_active = 20;
module_param(max_active, int, 0444);
MODULE_PARM_DESC(max_active, "How many calls to follow at a time");

static unsigned int reports = 10;
module_param(reports, uint, 0444);
MODULE_PARM_DESC(reports, "How many failures to report in the log");

static atomic64_t calls, failures;

static int handler(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	int ret = regs_return_value(regs);

	atomic64_inc(&calls);
	if (ret < 0 && atomic64_inc_return(&failures) <= reports)
		pr_info("%s (%d): %s returns %d\n", current->comm, current->pid, symbol, ret);
	return 0;
}

static struct kretprobe probe = {
	.handler = handler,
};

static int __init kretprobe_open_c_init(void)
{
	int err;

	probe.kp.symbol_name = symbol;
	probe.maxactive = max_active;
	err = register_kretprobe(&probe);
	if (err) {
		pr_err("no return probe on %s: %d\n", symbol, err);
		return err;
	}
	pr_info("return probe at %pS\n", probe.kp.addr);
	return 0;
}

static void __exit kretprobe_open_c_exit(void)
{
	unregister_kretprobe(&probe);
	pr_info("%lld calls, %lld failures, %d missed\n", atomic64_read(&calls),
		atomic64_read(&failures), probe.nmissed);
}

module_init(kretprobe_open_c_init);
module_exit(kretprobe_open_c_exit);

MODULE_AUTHOR("Ferrotrace maintainers");
MODULE_DESCRIPTION("Sample: a kretprobe that reports open calls that fail");
MODULE_LICENSE("GPL");
