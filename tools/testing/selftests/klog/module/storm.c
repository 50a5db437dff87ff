// SPDX-License-Identifier: GPL-2.0
/*
 * Messages from all CPUs at once: of a thread, a timer, a tasklet that the
 * timer schedules, and NMIs that another thread sends around.
 */
#include <linux/completion.h>
#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/hrtimer.h>
#include <linux/interrupt.h>
#include <linux/kthread.h>
#include <linux/percpu.h>
#include <linux/sched.h>

#include "klog_selftest.h"

struct storm_cpu {
	struct task_struct *thread;
	struct hrtimer timer;
	struct tasklet_struct tasklet;
};

static DEFINE_PER_CPU(struct storm_cpu, storm_cpu);
static DECLARE_COMPLETION(threads_done);
static atomic_t threads;
static struct task_struct *nmi_thread;
static bool want_nmis;
static unsigned int messages;
static bool ending = true, running;

static void log_one(unsigned int context)
{
	unsigned int seq = kst_logged(raw_smp_processor_id(), context);

	kst_log(context, kst_storm_len(seq));
}

static void storm_tasklet(struct tasklet_struct *t)
{
	log_one(KST_SOFTIRQ);
}

static enum hrtimer_restart storm_timer(struct hrtimer *timer)
{
	struct storm_cpu *sc = container_of(timer, struct storm_cpu, timer);

	log_one(KST_IRQ);
	tasklet_schedule(&sc->tasklet);
	hrtimer_forward_now(timer, us_to_ktime(200));
	return READ_ONCE(ending) ? HRTIMER_NORESTART : HRTIMER_RESTART;
}

/* Each context has logged here. */
static bool all_contexts(void)
{
	unsigned int cpu = raw_smp_processor_id();

	return kst_logged(cpu, KST_SOFTIRQ) && kst_logged(cpu, KST_IRQ) &&
	       (!READ_ONCE(want_nmis) || kst_logged(cpu, KST_NMI));
}

static int storm_thread(void *arg)
{
	struct storm_cpu *sc = this_cpu_ptr(&storm_cpu);
	unsigned int i;

	hrtimer_setup(&sc->timer, storm_timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL_PINNED_HARD);
	hrtimer_start(&sc->timer, us_to_ktime(200), HRTIMER_MODE_REL_PINNED_HARD);
	for (i = 0; (i < messages || !all_contexts()) && !READ_ONCE(ending); i++) {
		/* Its number gives its length: no other task logs here for this context. */
		log_one(KST_TASK);
		if (i % 64 == 0)
			cond_resched();
	}
	hrtimer_cancel(&sc->timer);
	if (atomic_dec_and_test(&threads))
		complete(&threads_done);
	while (!kthread_should_stop())
		schedule_timeout_interruptible(1);
	return 0;
}

static void nmi_log(void *unused)
{
	log_one(KST_NMI);
}

static int storm_nmis(void *arg)
{
	unsigned int cpu;

	while (!kthread_should_stop()) {
		for_each_online_cpu(cpu)
			kst_send_nmi(cpu, nmi_log, NULL);
		usleep_range(50, 150);
	}
	return 0;
}

int kst_storm_start(unsigned int count, bool with_nmi)
{
	unsigned int cpu;

	if (running)
		return -EBUSY;
	kst_reset();
	messages = count;
	ending = false;
	want_nmis = with_nmi && kst_have_nmi();
	reinit_completion(&threads_done);
	atomic_set(&threads, 1);
	for_each_online_cpu(cpu) {
		struct storm_cpu *sc = per_cpu_ptr(&storm_cpu, cpu);

		tasklet_setup(&sc->tasklet, storm_tasklet);
		sc->thread = kthread_create_on_cpu(storm_thread, NULL, cpu, "klog_storm/%u");
		if (IS_ERR(sc->thread)) {
			sc->thread = NULL;
			continue;
		}
		atomic_inc(&threads);
		wake_up_process(sc->thread);
	}
	nmi_thread = NULL;
	if (with_nmi && kst_have_nmi()) {
		nmi_thread = kthread_run(storm_nmis, NULL, "klog_storm_nmi");
		if (IS_ERR(nmi_thread)) {
			nmi_thread = NULL;
			WRITE_ONCE(want_nmis, false);
		}
	}
	if (atomic_dec_and_test(&threads))
		complete(&threads_done);
	running = true;
	return 0;
}

void kst_storm_end(void)
{
	WRITE_ONCE(ending, true);
}

/* Nothing is logged after this returns. */
int kst_storm_wait(void)
{
	int ret = 0;
	unsigned int cpu;

	if (!running)
		return 0;
	if (wait_for_completion_interruptible(&threads_done)) {
		WRITE_ONCE(ending, true);
		wait_for_completion(&threads_done);
		ret = -EINTR;
	}
	if (nmi_thread)
		kthread_stop(nmi_thread);
	for_each_possible_cpu(cpu) {
		struct storm_cpu *sc = per_cpu_ptr(&storm_cpu, cpu);

		if (!sc->thread)
			continue;
		kthread_stop(sc->thread);
		sc->thread = NULL;
		tasklet_kill(&sc->tasklet);
	}
	kst_nmi_settle();
	running = false;
	return ret;
}
