// SPDX-License-Identifier: GPL-2.0
/* Defines two hooks, and threads that pass them on all CPUs until the module is unloaded. */
#include <linux/cpumask.h>
#include <linux/gkhi.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/preempt.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>

static bool forget;
module_param(forget, bool, 0444);
MODULE_PARM_DESC(forget, "go without gkh_delete()");

DECLARE_GKHOOK(gst_guest, 1, GKH_RO);
DECLARE_GKHOOK(gst_guest_sleep, 1, GKH_RO);
DEFINE_GKHOOK(gst_guest, GKH_ATOMIC, "cpu");
DEFINE_GKHOOK(gst_guest_sleep, GKH_SLEEP, "cpu");

static struct task_struct *threads[NR_CPUS];

static int come_by(void *unused)
{
	unsigned int i = 0, cpu = raw_smp_processor_id();

	while (!kthread_should_stop()) {
		preempt_disable();
		GKHOOK_1VAR_RO(gst_guest, cpu);
		preempt_enable();
		GKHOOK_1VAR_RO(gst_guest_sleep, cpu);
		if (++i % 64 == 0)
			cond_resched_tasks_rcu_qs();
		/* Where the CPUs of a guest take turns, the others have a turn, too. */
		if (i % 512 == 0)
			schedule_timeout_interruptible(1);
	}
	return 0;
}

static void stop(void)
{
	unsigned int cpu;

	for_each_possible_cpu(cpu) {
		if (threads[cpu])
			kthread_stop(threads[cpu]);
		threads[cpu] = NULL;
	}
}

static int __init hook_init(void)
{
	unsigned int cpu;
	int err;

	err = gkh_identify(GKHOOK(gst_guest));
	if (err)
		return err;
	err = gkh_identify(GKHOOK(gst_guest_sleep));
	if (err) {
		gkh_delete(GKHOOK(gst_guest));
		return err;
	}
	for_each_online_cpu(cpu) {
		struct task_struct *t = kthread_create_on_cpu(come_by, NULL, cpu, "gst_guest/%u");

		if (IS_ERR(t))
			continue;
		threads[cpu] = t;
		wake_up_process(t);
	}
	return 0;
}
module_init(hook_init);

static void __exit hook_exit(void)
{
	/* While the threads still pass the hooks. */
	if (!forget) {
		gkh_delete(GKHOOK(gst_guest));
		gkh_delete(GKHOOK(gst_guest_sleep));
	}
	stop();
}
module_exit(hook_exit);

MODULE_AUTHOR("Ferrotrace maintainers");
MODULE_DESCRIPTION("Hooks that come and go");
MODULE_LICENSE("GPL v2");
