// SPDX-License-Identifier: GPL-2.0
/*
 * Running a function on a CPU of choice in a context of choice, and making
 * messages there.
 */
#include <linux/completion.h>
#include <linux/cpumask.h>
#include <linux/interrupt.h>
#include <linux/irq_work.h>
#include <linux/klog.h>
#include <linux/percpu.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

#ifdef CONFIG_X86_LOCAL_APIC
#include <asm/apic.h>
#include <asm/nmi.h>
#endif

#include "klog_selftest.h"

struct call {
	void (*fn)(void *arg);
	void *arg;
	unsigned int context;
	struct tasklet_struct tasklet;
	struct irq_work work;
	bool done;
};

/* For NMIs, which find nothing but their CPU. */
static DEFINE_PER_CPU(struct call *, nmi_call);
static DEFINE_PER_CPU(struct call, nmi_async);

#ifdef CONFIG_X86_LOCAL_APIC
static int on_nmi(unsigned int type, struct pt_regs *regs)
{
	struct call *call = __this_cpu_read(nmi_call);

	if (!call)
		return NMI_DONE;
	__this_cpu_write(nmi_call, NULL);
	call->fn(call->arg);
	/* Pairs with the waiter's acquire. */
	smp_store_release(&call->done, true);
	return NMI_HANDLED;
}

bool kst_have_nmi(void)
{
	return true;
}

static void send_nmi(unsigned int cpu)
{
	__apic_send_IPI_mask(cpumask_of(cpu), NMI_VECTOR);
}

int kst_nmi_init(void)
{
	unsigned int cpu;

	for_each_possible_cpu(cpu)
		per_cpu(nmi_async, cpu).done = true;
	return register_nmi_handler(NMI_LOCAL, on_nmi, 0, "klog_selftest");
}

void kst_nmi_exit(void)
{
	unregister_nmi_handler(NMI_LOCAL, "klog_selftest");
}
#else
bool kst_have_nmi(void)
{
	return false;
}

static void send_nmi(unsigned int cpu)
{
}

int kst_nmi_init(void)
{
	return 0;
}

void kst_nmi_exit(void)
{
}
#endif

void kst_send_nmi(unsigned int cpu, void (*fn)(void *arg), void *arg)
{
	struct call *call = &per_cpu(nmi_async, cpu);

	/* One at a time: two that arrive together are merged. */
	while (!smp_load_acquire(&call->done))
		cpu_relax();
	call->fn = fn;
	call->arg = arg;
	call->done = false;
	/* the call is complete before an NMI finds it */
	smp_store_release(&per_cpu(nmi_call, cpu), call);
	send_nmi(cpu);
}

void kst_nmi_settle(void)
{
	unsigned int cpu;

	for_each_online_cpu(cpu)
		/* pairs with on_nmi() */
		while (kst_have_nmi() && !smp_load_acquire(&per_cpu(nmi_async, cpu).done))
			cpu_relax();
}

static void on_tasklet(struct tasklet_struct *t)
{
	struct call *call = container_of(t, struct call, tasklet);

	WARN_ON_ONCE(!in_serving_softirq());
	call->fn(call->arg);
	/* Pairs with the waiter's acquire. */
	smp_store_release(&call->done, true);
}

static void on_irq(struct irq_work *work)
{
	struct call *call = container_of(work, struct call, work);

	WARN_ON_ONCE(!in_hardirq());
	call->fn(call->arg);
	/* Pairs with the waiter's acquire. */
	smp_store_release(&call->done, true);
}

/* On the CPU, in process context. */
static long run_here(void *arg)
{
	struct call *call = arg;

	call->done = false;
	switch (call->context) {
	case KST_TASK:
		call->fn(call->arg);
		return 0;
	case KST_SOFTIRQ:
		tasklet_setup(&call->tasklet, on_tasklet);
		tasklet_schedule(&call->tasklet);
		break;
	case KST_IRQ:
		call->work = IRQ_WORK_INIT_HARD(on_irq);
		irq_work_queue(&call->work);
		break;
	case KST_NMI:
		__this_cpu_write(nmi_call, call);
		send_nmi(raw_smp_processor_id());
		break;
	}
	/* pairs with whichever called it */
	while (!smp_load_acquire(&call->done))
		cond_resched();
	if (call->context == KST_SOFTIRQ)
		tasklet_kill(&call->tasklet);
	if (call->context == KST_IRQ)
		irq_work_sync(&call->work);
	return 0;
}

int kst_run(unsigned int cpu, unsigned int context, void (*fn)(void *arg), void *arg)
{
	struct call call = { .fn = fn, .arg = arg, .context = context };

	if (context >= KST_CONTEXTS || cpu >= nr_cpu_ids || !cpu_online(cpu))
		return -EINVAL;
	if (context == KST_NMI && !kst_have_nmi())
		return -EOPNOTSUPP;
	return work_on_cpu(cpu, run_here, &call);
}

/* A message is made in a buffer of its CPU and context, which nests as these do. */
static u8 __percpu *buffers;
static DEFINE_PER_CPU(u32[KST_CONTEXTS], next);

void kst_log(unsigned int context, unsigned int len)
{
	struct kst_head *head;
	unsigned int i;
	u8 *data;

	preempt_disable();
	data = this_cpu_ptr(buffers) + context * KST_MAX;
	head = (struct kst_head *)data;
	*head = (struct kst_head){
		.magic = KST_MAGIC,
		.len = len,
		.seq = (*this_cpu_ptr(&next))[context]++,
		.cpu = smp_processor_id(),
		.context = context,
	};
	for (i = sizeof(*head); i < len; i++)
		data[i] = kst_byte(head, i);
	klog(data, len);
	preempt_enable();
}

u64 kst_logged(unsigned int cpu, unsigned int context)
{
	return per_cpu(next, cpu)[context];
}

void kst_reset(void)
{
	unsigned int cpu;

	for_each_possible_cpu(cpu)
		memset(per_cpu(next, cpu), 0, sizeof(u32[KST_CONTEXTS]));
}

int kst_buffers_init(void)
{
	buffers = __alloc_percpu(KST_CONTEXTS * KST_MAX, __alignof__(struct kst_head));
	return buffers ? 0 : -ENOMEM;
}

void kst_buffers_exit(void)
{
	free_percpu(buffers);
}
