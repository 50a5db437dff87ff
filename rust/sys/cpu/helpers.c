// SPDX-License-Identifier: GPL-2.0
/* Wrappers for macros and static inline functions, which Rust cannot call. */
#include <linux/cpu.h>
#include <linux/cpumask.h>
#include <linux/export.h>
#include <linux/irq_work.h>
#include <linux/irqflags.h>
#include <linux/kprobes.h>
#include <linux/percpu.h>
#include <linux/preempt.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/stop_machine.h>

#include "helpers.h"

unsigned int ferro_next_possible_cpu(int cpu)
{
	return cpumask_next(cpu, cpu_possible_mask);
}
EXPORT_SYMBOL_GPL(ferro_next_possible_cpu);

unsigned int ferro_next_online_cpu(int cpu)
{
	return cpumask_next(cpu, cpu_online_mask);
}
EXPORT_SYMBOL_GPL(ferro_next_online_cpu);

bool ferro_cpu_possible(unsigned int cpu)
{
	return cpu < nr_cpu_ids && cpu_possible(cpu);
}
EXPORT_SYMBOL_GPL(ferro_cpu_possible);

void ferro_cpus_read_lock(void)
{
	cpus_read_lock();
}
EXPORT_SYMBOL_GPL(ferro_cpus_read_lock);

void ferro_cpus_read_unlock(void)
{
	cpus_read_unlock();
}
EXPORT_SYMBOL_GPL(ferro_cpus_read_unlock);

void __percpu *ferro_alloc_percpu_ptr(void)
{
	return alloc_percpu(void *);
}
EXPORT_SYMBOL_GPL(ferro_alloc_percpu_ptr);

void **ferro_per_cpu_ptr(void __percpu *slots, unsigned int cpu)
{
	return per_cpu_ptr((void * __percpu *)slots, cpu);
}
EXPORT_SYMBOL_GPL(ferro_per_cpu_ptr);

void **ferro_this_cpu_ptr(void __percpu *slots)
{
	return this_cpu_ptr((void * __percpu *)slots);
}
EXPORT_SYMBOL_GPL(ferro_this_cpu_ptr);

bool ferro_in_nmi(void)
{
	return in_nmi();
}
EXPORT_SYMBOL_GPL(ferro_in_nmi);

bool ferro_irqs_disabled(void)
{
	return irqs_disabled();
}
EXPORT_SYMBOL_GPL(ferro_irqs_disabled);

unsigned long ferro_local_irq_save(void)
{
	unsigned long flags;

	local_irq_save(flags);
	return flags;
}
EXPORT_SYMBOL_GPL(ferro_local_irq_save);
NOKPROBE_SYMBOL(ferro_local_irq_save);

void ferro_local_irq_restore(unsigned long flags)
{
	local_irq_restore(flags);
}
EXPORT_SYMBOL_GPL(ferro_local_irq_restore);
NOKPROBE_SYMBOL(ferro_local_irq_restore);

void ferro_preempt_disable(void)
{
	preempt_disable_notrace();
}
EXPORT_SYMBOL_GPL(ferro_preempt_disable);

void ferro_preempt_enable(void)
{
	preempt_enable_notrace();
}
EXPORT_SYMBOL_GPL(ferro_preempt_enable);

void ferro_preempt_schedule(void)
{
#ifdef CONFIG_PREEMPTION
	__preempt_schedule_notrace();
#endif
}
EXPORT_SYMBOL_GPL(ferro_preempt_schedule);

bool ferro_booting(void)
{
	return system_state < SYSTEM_RUNNING;
}
EXPORT_SYMBOL_GPL(ferro_booting);

void ferro_init_irq_work(struct irq_work *work, void (*func)(struct irq_work *))
{
	init_irq_work(work, func);
}
EXPORT_SYMBOL_GPL(ferro_init_irq_work);

int ferro_stop_one_cpu(unsigned int cpu, int (*fn)(void *), void *arg)
{
	return stop_one_cpu(cpu, fn, arg);
}
EXPORT_SYMBOL_GPL(ferro_stop_one_cpu);

void ferro_cond_resched(void)
{
	cond_resched();
}
EXPORT_SYMBOL_GPL(ferro_cond_resched);

bool ferro_fatal_signal_pending(void)
{
	return fatal_signal_pending(current);
}
EXPORT_SYMBOL_GPL(ferro_fatal_signal_pending);
