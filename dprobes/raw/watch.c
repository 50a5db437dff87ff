// SPDX-License-Identifier: GPL-2.0
/*
 * Watchpoints on all CPUs, including those that are brought online later: a perf event for each
 * CPU. The kernel's own "wide" breakpoints are only on CPUs that are online at registration. They
 * are lost when a CPU is taken offline and brought back.
 *
 * Contexts: process. Locks: the CPU hotplug lock, then watches_lock.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/cpu.h>
#include <linux/cpuhotplug.h>
#include <linux/err.h>
#include <linux/hw_breakpoint.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/perf_event.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>

#include "bindings.h"

struct ferro_dprobes_watch {
	struct list_head node;
	struct perf_event_attr attr;
	perf_overflow_handler_t triggered;
	void *context;
	/* NULL on CPUs without an event. */
	struct perf_event *__percpu *events;
};

static LIST_HEAD(watches);
static DEFINE_MUTEX(watches_lock);

static int watch_on(struct ferro_dprobes_watch *watch, unsigned int cpu)
{
	struct perf_event *event;

	event = perf_event_create_kernel_counter(&watch->attr, cpu, NULL, watch->triggered,
						 watch->context);
	if (IS_ERR(event))
		return PTR_ERR(event);
	*per_cpu_ptr(watch->events, cpu) = event;
	return 0;
}

static void unwatch_on(struct ferro_dprobes_watch *watch, unsigned int cpu)
{
	struct perf_event **event = per_cpu_ptr(watch->events, cpu);

	if (*event)
		unregister_hw_breakpoint(*event);
	*event = NULL;
}

/* A CPU without a free debug register is brought online nevertheless. */
static int cpu_online_callback(unsigned int cpu)
{
	struct ferro_dprobes_watch *watch;
	int error;

	guard(mutex)(&watches_lock);
	list_for_each_entry(watch, &watches, node) {
		error = watch_on(watch, cpu);
		if (error)
			pr_warn("%#llx is not watched on CPU %u: error %d\n",
				watch->attr.bp_addr, cpu, error);
	}
	return 0;
}

/* Called before perf removes its events from the CPU, which it would not restore. */
static int cpu_offline_callback(unsigned int cpu)
{
	struct ferro_dprobes_watch *watch;

	guard(mutex)(&watches_lock);
	list_for_each_entry(watch, &watches, node)
		unwatch_on(watch, cpu);
	return 0;
}

int ferro_dprobes_watch_begin(void)
{
	return cpuhp_setup_state_nocalls(CPUHP_AP_ONLINE_DYN, "ferrotrace/dprobes:online",
					 cpu_online_callback, cpu_offline_callback);
}

void ferro_dprobes_watch_end(int state)
{
	cpuhp_remove_state_nocalls(state);
}

struct ferro_dprobes_watch *ferro_dprobes_watch(unsigned long address, unsigned long len,
						unsigned int type,
						perf_overflow_handler_t triggered,
						void *context)
{
	struct ferro_dprobes_watch *watch;
	unsigned int cpu;
	int error = -ENOMEM;

	watch = kzalloc_obj(*watch);
	if (!watch)
		return ERR_PTR(error);
	watch->events = alloc_percpu(struct perf_event *);
	if (!watch->events)
		goto free;
	hw_breakpoint_init(&watch->attr);
	watch->attr.bp_addr = address;
	watch->attr.bp_len = len;
	watch->attr.bp_type = type;
	watch->triggered = triggered;
	watch->context = context;

	scoped_guard(cpus_read_lock) {
		for_each_online_cpu(cpu) {
			error = watch_on(watch, cpu);
			if (error)
				break;
		}
		if (!error) {
			guard(mutex)(&watches_lock);
			list_add_tail(&watch->node, &watches);
		}
	}
	if (!error)
		return watch;
	for_each_possible_cpu(cpu)
		unwatch_on(watch, cpu);
	free_percpu(watch->events);
free:
	kfree(watch);
	return ERR_PTR(error);
}

void ferro_dprobes_unwatch(struct ferro_dprobes_watch *watch)
{
	unsigned int cpu;

	/* From this point the hotplug callbacks do not find the watchpoint. */
	scoped_guard(mutex, &watches_lock)
		list_del(&watch->node);
	for_each_possible_cpu(cpu)
		unwatch_on(watch, cpu);
	free_percpu(watch->events);
	kfree(watch);
}

void ferro_dprobes_watch_sync(void)
{
	/* A handler is called with interrupts off. */
	synchronize_rcu();
}

int ferro_dprobes_watch_error(struct ferro_dprobes_watch *watch)
{
	return PTR_ERR_OR_ZERO(watch);
}

notrace void *ferro_dprobes_watch_context(struct perf_event *event)
{
	return event->overflow_handler_context;
}
