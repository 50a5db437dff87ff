// SPDX-License-Identifier: GPL-2.0
/*
 * Counts how often CPUs become idle: an exit in C on the hook of samples/gkhi_switch.rs.
 *
 * The exit takes only the first two of the hook's three parameters. The counts are printed when the
 * module is unloaded.
 */
#include <linux/atomic.h>
#include <linux/gkhi.h>
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/printk.h>

static DEFINE_PER_CPU(unsigned long, to_idle);
static DEFINE_PER_CPU(unsigned long, to_task);

static GKH_EXIT_2VAR(count_switch, self, prev, next)
{
	if ((int)next == 0)
		this_cpu_inc(to_idle);
	else
		this_cpu_inc(to_task);
	return GKH_CONTINUE;
}

static struct gkh_record record = {
	.hook = "task_switch",
	.name = "idle_count",
	.exit = count_switch,
	.params = 2,
};

static int __init idle_count_init(void)
{
	int err;

	err = gkh_register(&record);
	if (err)
		return err;
	err = gkh_arm(&record);
	if (err)
		gkh_deregister(&record);
	return err;
}
module_init(idle_count_init);

static void __exit idle_count_exit(void)
{
	unsigned long idle = 0, task = 0;
	int cpu;

	gkh_deregister(&record);
	for_each_possible_cpu(cpu) {
		idle += per_cpu(to_idle, cpu);
		task += per_cpu(to_task, cpu);
	}
	pr_info("gkhi_idle_count: %lu times to idle, %lu times to a task\n", idle, task);
}
module_exit(idle_count_exit);

MODULE_AUTHOR("Ferrotrace maintainers");
MODULE_DESCRIPTION("Counts how often CPUs go idle");
MODULE_LICENSE("GPL v2");
