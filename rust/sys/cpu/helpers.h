/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Wrappers for macros and static inline functions, which Rust cannot call. Each is named after the
 * macro or function that it wraps.
 */
#ifndef _FERROTRACE_SYS_CPU_HELPERS_H
#define _FERROTRACE_SYS_CPU_HELPERS_H

#include <linux/types.h>

struct irq_work;

/* cpumask.h: the next CPU after @cpu (-1: the first), or nr_cpu_ids. */
unsigned int ferro_next_possible_cpu(int cpu);
unsigned int ferro_next_online_cpu(int cpu);
bool ferro_cpu_possible(unsigned int cpu);

/* cpu.h: hold off CPU hotplug; no-ops without CONFIG_HOTPLUG_CPU. */
void ferro_cpus_read_lock(void);
void ferro_cpus_read_unlock(void);

/* percpu.h: a per-CPU pointer, NULL on every CPU. */
void __percpu *ferro_alloc_percpu_ptr(void);
void **ferro_per_cpu_ptr(void __percpu *slots, unsigned int cpu);
void **ferro_this_cpu_ptr(void __percpu *slots);

/* preempt.h */
bool ferro_in_nmi(void);

/* irqflags.h */
bool ferro_irqs_disabled(void);
unsigned long ferro_local_irq_save(void);
void ferro_local_irq_restore(unsigned long flags);

/* preempt.h; the last calls the scheduler, once preemption is enabled. */
void ferro_preempt_disable(void);
void ferro_preempt_enable(void);
void ferro_preempt_schedule(void);

/* kernel.h: true until the kernel has started user space. */
bool ferro_booting(void);

/* irq_work.h */
void ferro_init_irq_work(struct irq_work *work, void (*func)(struct irq_work *));

/*
 * stop_machine.h: runs @fn on @cpu in a thread that only code with preemption off delays, and waits
 * for it. -ENOENT if the CPU is offline.
 */
int ferro_stop_one_cpu(unsigned int cpu, int (*fn)(void *), void *arg);

/* sched.h, sched/signal.h */
void ferro_cond_resched(void);
bool ferro_fatal_signal_pending(void);

#endif /* _FERROTRACE_SYS_CPU_HELPERS_H */
