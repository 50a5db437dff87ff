// SPDX-License-Identifier: GPL-2.0
/*
 * Measures kprobes when it is loaded. Prints a line "kprobes_bench: OPERATION NANOSECONDS" for each
 * figure: the best of some rounds. In a guest that counts instructions as nanoseconds the figures
 * repeat.
 *
 * Loading always fails, with -EAGAIN on success: the module must not stay.
 */
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "bench.h"

static unsigned int rounds = 5;
module_param(rounds, uint, 0);
MODULE_PARM_DESC(rounds, "How often each hit is measured; the best counts");

static unsigned int registering;
module_param(registering, uint, 0);
MODULE_PARM_DESC(registering, "How often registering is measured; not at all by default");

static bool jumps;
module_param(jumps, bool, 0);
MODULE_PARM_DESC(jumps, "Measure only what is about jumps in the place of breakpoints");

static bool shares;
module_param(shares, bool, 0);
MODULE_PARM_DESC(shares, "Measure only in how many places there are jumps");

static char *hot;

static char *names;

/* They are too many for a charp. */
static int set_names(const char *value, const struct kernel_param *param)
{
	char **to = param->arg;

	*to = kstrdup(value, GFP_KERNEL);
	return *to ? 0 : -ENOMEM;
}

static const struct kernel_param_ops names_ops = { .set = set_names };
module_param_cb(hot, &names_ops, &hot, 0);
MODULE_PARM_DESC(hot, "Addresses of functions that are called often, as offsets from _stext, with commas between them");
module_param_cb(names, &names_ops, &names, 0);
MODULE_PARM_DESC(names, "Functions of the kernel with an instruction at offset 9, with commas between them");

void bench_print(const char *name, u64 thousandths)
{
	pr_info("kprobes_bench: %s %llu.%03llu\n", name, thousandths / 1000, thousandths % 1000);
}

int bench_pre(struct kprobe *p, struct pt_regs *regs)
{
	return 0;
}
NOKPROBE_SYMBOL(bench_pre);

void bench_post(struct kprobe *p, struct pt_regs *regs, unsigned long flags)
{
}
NOKPROBE_SYMBOL(bench_post);

static int __init bench_init(void)
{
	int err;

	if (shares)
		err = bench_shares(hot);
	else
		err = jumps ? bench_jumps(rounds) : bench_hits(rounds);
	if (!err && !jumps && !shares && registering)
		err = bench_registering(registering, names);
	kfree(names);
	kfree(hot);
	return err ?: -EAGAIN;
}
module_init(bench_init);

MODULE_DESCRIPTION("Cost of kprobes");
MODULE_LICENSE("GPL");
