// SPDX-License-Identifier: GPL-2.0
/*
 * Parts of klog that Rust cannot have: a function with variable arguments, and static per-CPU data.
 *
 * Everything here runs with interrupts off. Only NMIs can interrupt it on the same CPU, and an NMI
 * finishes before the interrupted code continues. Plain loads and stores that restore the old
 * values are therefore enough.
 *
 * A tracer may log, too, even from functions that format or handle a message. So functions here are
 * not traced until they have detected such nesting.
 */
#define pr_fmt(fmt) "klog: " fmt

#include <linux/bits.h>
#include <linux/compiler.h>
#include <linux/cpumask.h>
#include <linux/export.h>
#include <linux/irqflags.h>
#include <linux/klog.h>
#include <linux/minmax.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/preempt.h>
#include <linux/printk.h>
#include <linux/rcupdate.h>
#include <linux/sprintf.h>

#include "../../rust/sys/code/module_going.h"
#include "bindings.h"

DEFINE_MUTEX(klog_rust_mutex);

/* One for contexts other than an NMI, one for an NMI, one for a machine check in the NMI. */
#define KLOG_TEXTS	3

struct klog_cpu {
	u64 missed;
	/* a handler is running */
	bool busy;
	/* a bit for each buffer in use */
	unsigned int texts;
	char text[KLOG_TEXTS][KLOG_PRINTK_MAX];
};

static DEFINE_PER_CPU(struct klog_cpu, klog_cpu);

notrace bool ferro_klog_enter(void)
{
	struct klog_cpu *cpu = this_cpu_ptr(&klog_cpu);

	/* unregistering waits only for handlers that run while RCU is watching */
	if (READ_ONCE(cpu->busy) || !rcu_is_watching()) {
		this_cpu_inc(klog_cpu.missed);
		return false;
	}
	WRITE_ONCE(cpu->busy, true);
	barrier();
	return true;
}
EXPORT_SYMBOL_GPL(ferro_klog_enter);

notrace void ferro_klog_exit(void)
{
	barrier();
	__this_cpu_write(klog_cpu.busy, false);
}
EXPORT_SYMBOL_GPL(ferro_klog_exit);

/* Returns the index of this context's buffer: 0 outside of NMIs, 1 in an NMI, 2 in a nested NMI. */
static __always_inline unsigned int text_of_context(void)
{
	return min_t(unsigned int, nmi_count() >> NMI_SHIFT, KLOG_TEXTS - 1);
}

notrace char *ferro_klog_text_get(void)
{
	struct klog_cpu *cpu = this_cpu_ptr(&klog_cpu);
	unsigned int texts = READ_ONCE(cpu->texts), own = text_of_context();

	/* set only if a handler or a formatter logs: interrupts are off */
	if (texts & BIT(own)) {
		this_cpu_inc(klog_cpu.missed);
		return NULL;
	}
	WRITE_ONCE(cpu->texts, texts | BIT(own));
	barrier();
	return cpu->text[own];
}
EXPORT_SYMBOL_GPL(ferro_klog_text_get);

notrace void ferro_klog_text_put(void)
{
	struct klog_cpu *cpu = this_cpu_ptr(&klog_cpu);

	barrier();
	WRITE_ONCE(cpu->texts, READ_ONCE(cpu->texts) & ~BIT(text_of_context()));
}
EXPORT_SYMBOL_GPL(ferro_klog_text_put);

void ferro_klog_tell_other(const void *handler)
{
	pr_notice("another handler is registered: %ps\n", handler);
}
EXPORT_SYMBOL_GPL(ferro_klog_tell_other);

u64 klog_missed(void)
{
	unsigned int cpu;
	u64 missed = 0;

	for_each_possible_cpu(cpu)
		missed += READ_ONCE(per_cpu(klog_cpu.missed, cpu));
	return missed;
}
EXPORT_SYMBOL_GPL(klog_missed);

notrace void klog_printk(const char *fmt, ...)
{
	unsigned long flags;
	va_list args;
	char *text;

	if (!ferro_klog_active())
		return;

	local_irq_save(flags);
	text = ferro_klog_text_get();
	if (text) {
		va_start(args, fmt);
		klog(text, vscnprintf(text, KLOG_PRINTK_MAX, fmt, args));
		va_end(args);
		ferro_klog_text_put();
	}
	local_irq_restore(flags);
}
EXPORT_SYMBOL_GPL(klog_printk);

DEFINE_MODULE_GOING(ferro_klog_going, ferro_klog_module_going, 0);

/* Defined in Rust. */
EXPORT_SYMBOL_GPL(ferro_klog_active);
EXPORT_SYMBOL_GPL(klog);
EXPORT_SYMBOL_GPL(register_klog_handler);
EXPORT_SYMBOL_GPL(unregister_klog_handler);
