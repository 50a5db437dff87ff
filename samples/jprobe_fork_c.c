// SPDX-License-Identifier: GPL-2.0
/*
 * Sample: the jprobes example of the kprobes document, for <linux/jprobes.h>.
 *
 * Probes the function that forks, with a handler that has the parameters of that function. It
 * counts the calls, and writes the arguments of the first ones to the log.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/jprobes.h>
#include <linux/module.h>
#include <linux/sched/task.h>

static unsigned int reports = 3;
module_param(reports, uint, 0444);
MODULE_PARM_DESC(reports, "How many hits to report in the log");

static atomic64_t hits;

/* Has the parameters and the return type of kernel_clone(). */
static pid_t jkernel_clone(struct kernel_clone_args *args)
{
	if (atomic64_inc_return(&hits) <= reports)
		pr_info("clone flags 0x%llx, stack 0x%lx of 0x%lx bytes, exit signal %d\n",
			args->flags, args->stack, args->stack_size, args->exit_signal);
	jprobe_return();
	/* not reached */
	return 0;
}

static struct jprobe probe = {
	.kp.symbol_name = "kernel_clone",
	.entry = jkernel_clone,
};

static int __init jprobe_fork_c_init(void)
{
	int err = register_jprobe(&probe);

	if (err) {
		pr_err("no jprobe on %s: %d\n", probe.kp.symbol_name, err);
		return err;
	}
	pr_info("jprobe at %pS, handler %ps\n", probe.kp.addr, probe.entry);
	return 0;
}

static void __exit jprobe_fork_c_exit(void)
{
	unregister_jprobe(&probe);
	pr_info("%lld hits, %lu missed\n", atomic64_read(&hits), probe.kp.nmissed);
}

module_init(jprobe_fork_c_init);
module_exit(jprobe_fork_c_exit);

MODULE_AUTHOR("Ferrotrace maintainers");
MODULE_DESCRIPTION("Sample: a jprobe that prints the arguments of forks");
MODULE_LICENSE("GPL");
