// SPDX-License-Identifier: GPL-2.0
/*
 * Exits on the hooks of gkhi_selftest_hook, armed as long as the module is there.
 */
#include <linux/bug.h>
#include <linux/gkhi.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/percpu.h>

static bool forget;
module_param(forget, bool, 0444);
MODULE_PARM_DESC(forget, "go without gkh_deregister()");

static DEFINE_PER_CPU(unsigned long, calls);
static int token;

static GKH_EXIT_1VAR(count, self, cpu)
{
	WARN_ON_ONCE(self->data != &token || self->count != 1);
	WARN_ON_ONCE(cpu >= nr_cpu_ids);
	raw_cpu_inc(calls);
	return GKH_CONTINUE;
}

static struct gkh_record asleep = {
	.hook = "gst_guest_sleep", .name = "guest_sleep", .exit = count, .params = 1, .data = &token,
};

static struct gkh_record atomic = {
	.hook = "gst_guest", .name = "guest", .exit = count, .params = 1, .data = &token, .next = &asleep,
};

static int get_calls(char *buffer, const struct kernel_param *param)
{
	unsigned long sum = 0;
	unsigned int cpu;

	for_each_possible_cpu(cpu)
		sum += per_cpu(calls, cpu);
	return sysfs_emit(buffer, "%lu\n", sum);
}

static const struct kernel_param_ops calls_ops = { .get = get_calls };
module_param_cb(calls, &calls_ops, NULL, 0444);
MODULE_PARM_DESC(calls, "how often the exits have been called");

static int __init exit_init(void)
{
	int err;

	err = gkh_register(&atomic);
	if (err)
		return err;
	err = gkh_register(&asleep);
	if (err) {
		atomic.next = NULL;
		gkh_deregister(&atomic);
		return err;
	}
	err = gkh_arm(&atomic);
	if (err)
		gkh_deregister(&atomic);
	return err;
}
module_init(exit_init);

static void __exit exit_exit(void)
{
	if (!forget)
		WARN_ON(gkh_deregister(&atomic));
}
module_exit(exit_exit);

MODULE_AUTHOR("Ferrotrace maintainers");
MODULE_DESCRIPTION("Exits that come and go");
MODULE_LICENSE("GPL v2");
