// SPDX-License-Identifier: GPL-2.0
/*
 * Functions on all CPUs, in threads and in NMIs.
 */
#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/jiffies.h>
#include <linux/kthread.h>
#include <linux/percpu.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <asm/apic.h>
#include <asm/nmi.h>

#include "gkhi_selftest.h"

struct gst_crew {
	void (*fn)(void *arg);
	void *arg;
	struct task_struct *threads[NR_CPUS];
};

static int work(void *data)
{
	struct gst_crew *crew = data;
	unsigned int i = 0;

	while (!kthread_should_stop()) {
		crew->fn(crew->arg);
		if (++i % 64 == 0) {
			cond_resched_tasks_rcu_qs();
			/*
			 * Where the CPUs of a guest take turns, this is the turn of the next one.
			 */
			cpu_relax();
		}
		if (i % 4096 == 0)
			schedule_timeout_interruptible(1);
	}
	return 0;
}

struct gst_crew *gst_hire(void (*fn)(void *arg), void *arg)
{
	struct gst_crew *crew;
	unsigned int cpu;

	crew = kzalloc_obj(*crew);
	if (!EXPECT(crew))
		return NULL;
	crew->fn = fn;
	crew->arg = arg;
	for_each_online_cpu(cpu) {
		struct task_struct *t = kthread_create_on_cpu(work, crew, cpu, "gkhi_selftest/%u");

		if (!EXPECT(!IS_ERR(t)))
			continue;
		crew->threads[cpu] = t;
		wake_up_process(t);
	}
	return crew;
}

void gst_dismiss(struct gst_crew *crew)
{
	unsigned int cpu;

	if (!crew)
		return;
	for_each_possible_cpu(cpu)
		if (crew->threads[cpu])
			kthread_stop(crew->threads[cpu]);
	kfree(crew);
}

struct meeting {
	void (*fn)(void *arg);
	void *arg;
	atomic_t missing;
};

static int meet(void *data)
{
	struct meeting *m = data;

	atomic_dec(&m->missing);
	while (atomic_read(&m->missing) > 0)
		cond_resched();
	m->fn(m->arg);
	while (!kthread_should_stop())
		schedule_timeout_interruptible(1);
	return 0;
}

int gst_at_once(void (*fn)(void *arg), void *arg)
{
	struct meeting m = { .fn = fn, .arg = arg };
	struct task_struct **threads;
	unsigned int cpu;

	threads = kcalloc(nr_cpu_ids, sizeof(*threads), GFP_KERNEL);
	if (!threads)
		return -ENOMEM;
	for_each_online_cpu(cpu) {
		struct task_struct *t = kthread_create_on_cpu(meet, &m, cpu, "gkhi_meet/%u");

		if (IS_ERR(t))
			continue;
		threads[cpu] = t;
		atomic_inc(&m.missing);
	}
	for_each_possible_cpu(cpu)
		if (threads[cpu])
			wake_up_process(threads[cpu]);
	for_each_possible_cpu(cpu)
		if (threads[cpu]) {
			/* a thread that is stopped before its first run would not run at all */
			while (atomic_read(&m.missing) > 0)
				schedule_timeout_interruptible(1);
			kthread_stop(threads[cpu]);
		}
	kfree(threads);
	return 0;
}

bool gst_wait(bool (*done)(void *arg), void *arg)
{
	unsigned long end = jiffies + 60 * HZ;

	while (!done(arg)) {
		if (time_after(jiffies, end))
			return false;
		usleep_range(50, 100);
	}
	return true;
}

static DEFINE_PER_CPU(bool, nmi_sent);
static DEFINE_PER_CPU(unsigned long, nmis);
static DEFINE_PER_CPU(unsigned long, nmis_before);
static void (*nmi_fn)(void);
static struct task_struct *nmi_thread;

static int on_nmi(unsigned int type, struct pt_regs *regs)
{
	if (!__this_cpu_read(nmi_sent))
		return NMI_DONE;
	nmi_fn();
	raw_cpu_inc(nmis);
	/* pairs with send_nmis() */
	smp_store_release(this_cpu_ptr(&nmi_sent), false);
	return NMI_HANDLED;
}

static int send_nmis(void *unused)
{
	unsigned int cpu;

	while (!kthread_should_stop()) {
		for_each_online_cpu(cpu) {
			bool *sent = per_cpu_ptr(&nmi_sent, cpu);

			/* Two that arrive together are one. */
			if (smp_load_acquire(sent))
				continue;
			/* the NMI finds it */
			smp_store_release(sent, true);
			__apic_send_IPI_mask(cpumask_of(cpu), NMI_VECTOR);
			ndelay(500);
		}
		cond_resched_tasks_rcu_qs();
		cpu_relax();
	}
	for_each_online_cpu(cpu)
		/* pairs with on_nmi() */
		while (smp_load_acquire(per_cpu_ptr(&nmi_sent, cpu)))
			cpu_relax();
	return 0;
}

int gst_nmi_start(void (*fn)(void))
{
	nmi_fn = fn;
	nmi_thread = kthread_run(send_nmis, NULL, "gkhi_nmi");
	return PTR_ERR_OR_ZERO(nmi_thread);
}

void gst_nmi_stop(void)
{
	kthread_stop(nmi_thread);
}

/* The first one may have begun before. */
static bool two_more_each(void *unused)
{
	unsigned int cpu;

	for_each_online_cpu(cpu)
		if (READ_ONCE(per_cpu(nmis, cpu)) - per_cpu(nmis_before, cpu) < 2)
			return false;
	return true;
}

bool gst_nmi_everywhere(void)
{
	unsigned int cpu;

	for_each_online_cpu(cpu)
		per_cpu(nmis_before, cpu) = READ_ONCE(per_cpu(nmis, cpu));
	return gst_wait(two_more_each, NULL);
}

int gst_run_init(void)
{
	return register_nmi_handler(NMI_LOCAL, on_nmi, 0, "gkhi_selftest");
}

void gst_run_exit(void)
{
	unregister_nmi_handler(NMI_LOCAL, "gkhi_selftest");
}
