// SPDX-License-Identifier: GPL-2.0
/*
 * debugfs gkhi_selftest/: in addition to the cases, "ctl" takes the commands of pool.c, and reading
 * it shows the values that its exits have seen.
 */
#include <linux/debugfs.h>
#include <linux/init.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include "gkhi_selftest.h"

unsigned int gst_rounds = 1000;
module_param_named(rounds, gst_rounds, uint, 0644);
MODULE_PARM_DESC(rounds, "rounds of churn.rounds on each CPU");

static const struct test_case cases[] = {
	{ "atomic.preempt_off", gst_atomic_preempt_off },
	{ "atomic.nmi", gst_atomic_nmi },
	{ "atomic.task", gst_atomic_task },
	{ "atomic.not_within_a_section", gst_atomic_section },
	{ "atomic.one_by_one_is_seen", gst_atomic_one_by_one },
	{ "atomic.one_by_one_is_seen_in_nmis", gst_atomic_one_by_one_nmi },
	{ "leave.one_of_all_cpus", gst_leave_race },
	{ "leave.one_call_with_cpus_stopped", gst_leave_stopped },
	{ "leave.nop_comes_back", gst_leave_nop },
	{ "leave.in_nmis", gst_leave_nmi },
	{ "conditions.no_sleep", gst_no_sleep },
	{ "conditions.irqs_off", gst_irqs_off },
	{ "conditions.cpus_stopped", gst_cpus_stopped },
	{ "conditions.cannot_stop", gst_cannot_stop },
	{ "churn.nmi", gst_churn_nmi },
	{ "churn.rounds", gst_churn_rounds },
	{ "points.int3", gst_point_int3 },
	{ "points.debug", gst_point_debug },
	{ "points.kernel_fault_page", gst_point_page_fault },
	{ "points.kernel_fault_protection", gst_point_protection },
	{ "points.trampoline", gst_point_trampoline },
	{ }
};

static const struct test_case * const lists[] = { gst_refusals, cases, NULL };
static const struct test_cases all = { .lists = lists };

static ssize_t ctl_write(struct file *file, const char __user *from, size_t count, loff_t *pos)
{
	char *text;
	int err;

	text = memdup_user_nul(from, min_t(size_t, count, PAGE_SIZE));
	if (IS_ERR(text))
		return PTR_ERR(text);
	scoped_guard(mutex, &cases_lock)
		err = gst_command(strim(text));
	kfree(text);
	return err ?: count;
}

static int ctl_show(struct seq_file *m, void *unused)
{
	guard(mutex)(&cases_lock);
	gst_trace_show(m);
	return 0;
}

DEFINE_SHOW_STORE_ATTRIBUTE(ctl);

static __init GKH_EXIT_0VAR(init_exit, self)
{
	return GKH_CONTINUE;
}

static struct gkh_record init_record __initdata = {
	.hook = "gst_zero", .name = "init", .exit = init_exit,
};

int gst_init_text_err;
static struct dentry *dir;

static int __init gst_init(void)
{
	int err;

	err = gst_hooks_init();
	if (err)
		return err;
	err = gst_run_init();
	if (err) {
		gst_hooks_exit();
		return err;
	}
	gst_init_text_err = gkh_register(&init_record);
	if (!gst_init_text_err)
		gkh_deregister(&init_record);
	dir = cases_init(&all);
	debugfs_create_file("ctl", 0600, dir, NULL, &ctl_fops);
	return 0;
}
module_init(gst_init);

static void __exit gst_exit(void)
{
	debugfs_remove(dir);
	gst_pool_exit();
	gst_run_exit();
	gst_hooks_exit();
}
module_exit(gst_exit);

MODULE_AUTHOR("Ferrotrace maintainers");
MODULE_DESCRIPTION("Tests of the hook registry");
MODULE_LICENSE("GPL v2");
