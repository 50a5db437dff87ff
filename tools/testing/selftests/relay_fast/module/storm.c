// SPDX-License-Identifier: GPL-2.0
/*
 * Storm: on each CPU a thread, a timer in softirq, a timer in hard interrupt, and NMIs from
 * everywhere, all of which write.
 */
#include <linux/atomic.h>
#include <linux/completion.h>
#include <linux/cpu.h>
#include <linux/cpumask.h>
#include <linux/hrtimer.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/sched/signal.h>
#include <linux/smp.h>
#include <asm/apic.h>
#include <asm/nmi.h>

#include "selftest.h"
#include "threads.h"

struct writer {
	struct hrtimer soft;
	struct hrtimer hard;
};

static struct writer writers[NR_CPUS];
static struct cpu_threads threads;
static u64 duration_ms, period_us, burst;
static atomic_t nmis_sent[NR_CPUS], nmis_seen[NR_CPUS];
static bool nmis;

/* An NMI to a CPU; to this one too. */
void fst_send_nmi(unsigned int cpu)
{
	if (!READ_ONCE(nmis) || !cpu_online(cpu))
		return;
	atomic_inc(&nmis_sent[cpu]);
	__apic_send_IPI_mask(cpumask_of(cpu), NMI_VECTOR);
}

/* NMIs that arrive together are merged: fewer may be seen than were sent. */
static int nmi_handler(unsigned int type, struct pt_regs *regs)
{
	unsigned int cpu = smp_processor_id();

	if (atomic_read(&nmis_seen[cpu]) >= atomic_read(&nmis_sent[cpu]))
		return NMI_DONE;
	atomic_inc(&nmis_seen[cpu]);
	if (READ_ONCE(nmis))
		fst_put(FST_NMI, 0);
	return NMI_HANDLED;
}

static unsigned int next_cpu(unsigned int cpu)
{
	cpu = cpumask_next(cpu, cpu_online_mask);
	return cpu < nr_cpu_ids ? cpu : cpumask_first(cpu_online_mask);
}

/*
 * Not at once: a slow CPU, or one that also has the timers of an offline CPU, must have time for
 * other work.
 */
static enum hrtimer_restart again(struct hrtimer *timer, ktime_t began)
{
	ktime_t now = ktime_get();

	hrtimer_set_expires(timer, now + max(us_to_ktime(period_us), 3 * (now - began)));
	return HRTIMER_RESTART;
}

static enum hrtimer_restart soft_timer(struct hrtimer *timer)
{
	ktime_t began = ktime_get();
	u64 i;

	for (i = 0; i < burst; i++)
		fst_put(FST_SOFTIRQ, 0);
	return again(timer, began);
}

static enum hrtimer_restart hard_timer(struct hrtimer *timer)
{
	ktime_t began = ktime_get();
	u64 i;

	fst_send_nmi(next_cpu(smp_processor_id()));
	for (i = 0; i < burst; i++)
		fst_put(FST_IRQ, 0);
	return again(timer, began);
}

static int storm_thread(void *arg)
{
	unsigned int here = (uintptr_t)arg;
	struct writer *w = &writers[here];
	ktime_t end = ktime_add_ms(ktime_get(), duration_ms);
	u32 i, refused = 0;

	hrtimer_start(&w->soft, us_to_ktime(period_us), HRTIMER_MODE_REL_PINNED_SOFT);
	hrtimer_start(&w->hard, us_to_ktime(period_us), HRTIMER_MODE_REL_PINNED_HARD);
	for (i = 1; ktime_before(ktime_get(), end) && !kthread_should_stop(); i++) {
		unsigned int cpu = get_cpu();

		if (i % 16 == 0)
			fst_send_nmi(next_cpu(cpu));
		fst_put(FST_TASK, 0);
		put_cpu();
		/* leave the readers a chance, but keep some pressure */
		if (i % 64 == 0) {
			u32 now = fst.lane[FST_TASK][cpu].refused;

			if (now != refused)
				schedule_timeout_uninterruptible(1);
			else
				cond_resched();
			refused = now;
		}
	}
	hrtimer_cancel(&w->hard);
	hrtimer_cancel(&w->soft);
	return cpu_thread_ends(&threads, here);
}

/* storm ms= [period=MICROSECONDS] [burst=] [except=CPU]: on every online CPU, but the one excepted */
int fst_storm(const struct ctl_args *a)
{
	u64 except = U64_MAX;
	unsigned int cpu;
	int ret;

	fst_storm_stop();
	duration_ms = 1000;
	period_us = 1000;
	burst = 2;
	ret = ctl_num(a, "ms", &duration_ms) ?: ctl_num(a, "period", &period_us) ?:
	      ctl_num(a, "burst", &burst) ?: ctl_num(a, "except", &except);
	if (ret)
		return ret;
	if (!period_us)
		return -EINVAL;

	for_each_possible_cpu(cpu) {
		struct writer *w = &writers[cpu];

		hrtimer_setup(&w->soft, soft_timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL_PINNED_SOFT);
		hrtimer_setup(&w->hard, hard_timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL_PINNED_HARD);
	}
	WRITE_ONCE(nmis, true);
	ret = cpu_threads_start(&threads, storm_thread, "fst/%u", except);
	if (ret)
		fst_storm_stop();
	return ret;
}

static void nothing(void *unused)
{
}

/* The last NMIs may be sent to CPUs that the host has no time for just now. Each takes its own before an interrupt. */
static void wait_for_nmis(void)
{
	on_each_cpu(nothing, NULL, true);
}

/* stormwait: until all threads have finished, and all NMIs have been handled */
int fst_storm_wait(void)
{
	int ret = cpu_threads_wait(&threads);

	if (!ret)
		wait_for_nmis();
	return ret;
}

void fst_storm_stop(void)
{
	if (!nmis)
		return;
	cpu_threads_stop(&threads);
	/* NMIs that were sent must not find the channel closed */
	wait_for_nmis();
	WRITE_ONCE(nmis, false);
	synchronize_rcu();
}

int fst_storm_init(void)
{
	return register_nmi_handler(NMI_LOCAL, nmi_handler, 0, "relay_fast_selftest");
}

void fst_storm_exit(void)
{
	unregister_nmi_handler(NMI_LOCAL, "relay_fast_selftest");
}
