// SPDX-License-Identifier: GPL-2.0
/*
 * The C part of the Rust kprobes engine: a mutex that is ready at boot, a warning, a callback after
 * a grace period of RCU tasks, work items, a sysctl, features of the CPU, and the exports of the
 * functions that it defines.
 */
#include <linux/atomic.h>
#include <linux/bug.h>
#include <linux/context_tracking_state.h>
#include <linux/export.h>
#include <linux/kprobes.h>
#include <linux/kprobes_fault.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/sysctl.h>
#include <linux/workqueue.h>
#include <asm/cpufeature.h>

#include "../builtin/builtin.h"
#include "detour.h"
#include "engine.h"

DEFINE_MUTEX(kprobes_rust_mutex);

void ferro_registered_twice(void)
{
	WARN_ONCE(1, "kprobes: a probe is registered that is registered already\n");
}

/* For tests of the FRED code paths on any CPU. */
static bool post_stops;
module_param(post_stops, bool, 0444);
MODULE_PARM_DESC(post_stops,
		 "as on CPUs with FRED: breakpoints after copies, and CPUs synchronised with them");

/*
 * Returns true if post_trampoline.S cannot be used. As a guest of Xen the kernel has the privilege
 * of a user: iret, with the kernel's segment, is a fault. With FRED iret lets in another NMI, for
 * which the NMI handler is not prepared.
 */
bool ferro_kprobe_must_stop(void)
{
	return post_stops || boot_cpu_has(X86_FEATURE_XENPV) || boot_cpu_has(X86_FEATURE_FRED);
}

/*
 * Returns true if a CPU that returns from a breakpoint may execute bytes that it fetched before.
 * iret serialises; erets, its substitute on CPUs with FRED, only waits for the instructions before
 * it.
 */
bool ferro_kprobe_returns_early(void)
{
	return post_stops || boot_cpu_has(X86_FEATURE_FRED);
}

void ferro_kprobes_hold(bool on)
{
	WRITE_ONCE(ferro_kprobes_module, on ? THIS_MODULE : NULL);
	if (!on)
		synchronize_rcu();
}

void ferro_kprobes_doze(void)
{
	set_current_state(TASK_UNINTERRUPTIBLE | TASK_FREEZABLE);
	schedule_timeout(HZ / 10);
}

/* Set while a call is due; the call's memory and number are in use then. */
static atomic_t reap_due;
static unsigned long reap_number;

static void reap(struct work_struct *work)
{
	unsigned long number = reap_number;

	/* Tasks that ftrace called where RCU does not watch. */
	synchronize_rcu_tasks_rude();
	atomic_set_release(&reap_due, 0);
	ferro_kprobes_reap(number);
}

static DECLARE_WORK(reap_work, reap);

/* Callbacks must not sleep. */
static void reap_soon(struct rcu_head *head)
{
	queue_work(system_dfl_wq, &reap_work);
}

static struct rcu_head reap_head;

bool ferro_kprobes_call_reap(unsigned long number)
{
	if (atomic_xchg(&reap_due, 1))
		return false;
	reap_number = number;
	call_rcu_tasks(&reap_head, reap_soon);
	return true;
}

void ferro_kprobes_wait_for_reap(void)
{
	rcu_barrier_tasks();
	flush_work(&reap_work);
}

static_assert(offsetof(struct kprobe, pre_handler) == FERRO_KPROBE_PRE);
static_assert(offsetof(struct kprobe, post_handler) == FERRO_KPROBE_POST);
#ifdef CONFIG_CONTEXT_TRACKING_IDLE
static_assert(offsetof(struct context_tracking, state) == FERRO_CONTEXT_STATE);
static_assert(CT_RCU_WATCHING == FERRO_RCU_WATCHING);
#endif

struct kprobe ferro_kprobe_walk = { .pre_handler = ferro_kprobe_walk_before };
struct kprobe ferro_kprobe_walk_posting = {
	.pre_handler = ferro_kprobe_walk_around, .post_handler = ferro_kprobe_walk_after,
};

bool ferro_kprobe_has_smap(void)
{
	return boot_cpu_has(X86_FEATURE_SMAP);
}

u8 ferro_kprobe_address_bits(void)
{
	/* The kernel clears the feature if it does not use it. */
	return boot_cpu_has(X86_FEATURE_LA57) ? 57 : 48;
}

static void run_optimizer(struct work_struct *work)
{
	ferro_kprobes_optimize();
}

static DECLARE_DELAYED_WORK(optimize_work, run_optimizer);

/* In ticks. Probes mostly arrive in numbers: all within this time share a grace period. */
#define OPTIMIZE_DELAY 2

/* The work waits for every task, which may take long. */
void ferro_kprobes_optimize_soon(void)
{
	/*
	 * optprobe_template.S may return when the flags are those of the probed code, and a return
	 * that counts the depth of calls (retbleed=stuff) changes them.
	 */
	if (cpu_feature_enabled(X86_FEATURE_CALL_DEPTH))
		return;
	/*
	 * optprobe_template.S calls handlers at their addresses; with FineIBT, C calls them at
	 * others.
	 */
	if (IS_ENABLED(CONFIG_FINEIBT))
		return;
	queue_delayed_work(system_dfl_long_wq, &optimize_work, OPTIMIZE_DELAY);
}

void ferro_kprobes_optimize_later(void)
{
	queue_delayed_work(system_dfl_long_wq, &optimize_work, HZ);
}

static void run_unoptimizer(struct work_struct *work)
{
	ferro_kprobes_unoptimize_idle();
}

static DECLARE_DELAYED_WORK(unoptimize_idle_work, run_unoptimizer);

/* A work item of its own: a task that does not sleep delays the one above. */
void ferro_kprobes_unoptimize_idle_soon(void)
{
	queue_delayed_work(system_dfl_wq, &unoptimize_idle_work, OPTIMIZE_DELAY);
}

void ferro_kprobes_keep(void)
{
	static bool kept;

	/* One reference is enough. Only called with the engine's mutex. */
	if (!kept)
		__module_get(THIS_MODULE);
	kept = true;
}

void ferro_kprobes_optimize_cancel(void)
{
	/* This one may queue the other. */
	cancel_delayed_work_sync(&unoptimize_idle_work);
	cancel_delayed_work_sync(&optimize_work);
}

#ifdef CONFIG_SYSCTL
static DEFINE_MUTEX(sysctl_mutex);
static int optimizing;

static int set_optimization(const struct ctl_table *table, int write, void *buffer, size_t *length,
			    loff_t *ppos)
{
	int error;

	guard(mutex)(&sysctl_mutex);
	optimizing = ferro_kprobes_is_optimizing();
	error = proc_dointvec_minmax(table, write, buffer, length, ppos);
	if (write && !error)
		ferro_kprobes_set_optimizing(optimizing);
	return error;
}

static const struct ctl_table sysctls[] = {
	{
		.procname	= "kprobes-optimization",
		.data		= &optimizing,
		.maxlen		= sizeof(int),
		.mode		= 0644,
		.proc_handler	= set_optimization,
		.extra1		= SYSCTL_ZERO,
		.extra2		= SYSCTL_ONE,
	},
};

static struct ctl_table_header *sysctl_header;

int ferro_kprobes_sysctl_add(void)
{
	sysctl_header = register_sysctl("debug", sysctls);
	return sysctl_header ? 0 : -ENOMEM;
}

void ferro_kprobes_sysctl_remove(void)
{
	unregister_sysctl_table(sysctl_header);
}
#else
int ferro_kprobes_sysctl_add(void)
{
	return 0;
}

void ferro_kprobes_sysctl_remove(void)
{
}
#endif

EXPORT_SYMBOL_GPL(register_kprobe);
EXPORT_SYMBOL_GPL(register_kprobe_fault);
EXPORT_SYMBOL_GPL(unregister_kprobe);
EXPORT_SYMBOL_GPL(register_kprobes);
EXPORT_SYMBOL_GPL(unregister_kprobes);
/* For live coverage. */
EXPORT_SYMBOL_GPL(get_kprobe);
EXPORT_SYMBOL_GPL(enable_kprobe);
EXPORT_SYMBOL_GPL(disable_kprobe);
EXPORT_SYMBOL_GPL(register_kretprobe);
EXPORT_SYMBOL_GPL(unregister_kretprobe);
EXPORT_SYMBOL_GPL(register_kretprobes);
EXPORT_SYMBOL_GPL(unregister_kretprobes);
