/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The kernel's hook points: hooks where the kernel calls its tracing engines. They are defined in
 * kernel/ferrotrace/gkhi/points.c. The engines attach exits to them, and so can any module.
 *
 * An answer that is not 0 says that the exit has handled the event; the comment at each hook
 * describes the kernel's reaction.
 */
#ifndef _LINUX_GKHI_POINTS_H
#define _LINUX_GKHI_POINTS_H

#include <linux/gkhi.h>

/*
 * int3(struct pt_regs *regs): a breakpoint instruction, in the kernel or in user space, before
 * kprobes and the die notifiers. Context: trap, as in an NMI for a breakpoint in the kernel. Not 0:
 * the trap is handled, and execution continues at @regs->ip.
 */
DECLARE_GKHOOK(int3, 1, GKH_RO);

/*
 * debug(struct pt_regs *regs, unsigned long *dr6): a debug trap, such as the one after a single
 * step, before the die notifiers. Context: trap, as in an NMI for a trap in the kernel. The bits of
 * DR6 have positive polarity; the exit clears those that it has handled. Not 0: the trap is
 * handled.
 */
DECLARE_GKHOOK(debug, 2, GKH_RO);

/*
 * kernel_fault(struct pt_regs *regs, unsigned long trapnr, unsigned long address): a page fault of
 * the kernel that is not spurious, before it is handled, or a general protection fault (@address is
 * 0) without a fix-up. Context: trap; may or may not be preemptible. Not 0: the fault is handled,
 * and execution continues at @regs->ip.
 */
DECLARE_GKHOOK(kernel_fault, 3, GKH_RO);

/*
 * task_fork(struct task_struct *task, unsigned long clone_flags): a task is complete and not
 * running yet. Context: process, of the parent. The answer is ignored.
 */
DECLARE_GKHOOK(task_fork, 2, GKH_RO);

/*
 * task_exit(struct task_struct *task): a task that has exited can no longer be found, and is about
 * to be freed. Context: RCU callback, usually in a soft interrupt. The answer is ignored.
 */
DECLARE_GKHOOK(task_exit, 1, GKH_RO);

/*
 * uprobe_done(struct pt_regs *regs, unsigned long address, bool executed): consumers of a uprobe
 * have been called for the instruction at @address. @executed is false if a consumer has set
 * another instruction pointer, or if the instruction has faulted or is about to be executed again.
 * Between the consumers and this hook, the task has been in user space if the instruction was
 * executed in a copy; the hook is not called for a task that is killed there. Context: process, of
 * the task that hit the uprobe. The answer is ignored.
 */
DECLARE_GKHOOK(uprobe_done, 3, GKH_RO);

/*
 * trampoline_update(struct ftrace_ops *ops): an ops needs its trampoline made or changed. Context:
 * process, with ftrace_lock held. Not 0: the exit has done it, and has set ops->trampoline,
 * ->trampoline_size and, if trampoline_free is to fire for it, FTRACE_OPS_FL_ALLOC_TRAMP. The exit
 * must stay armed as long as it has trampolines.
 */
DECLARE_GKHOOK(trampoline_update, 1, GKH_RO);

/*
 * trampoline_free(struct ftrace_ops *ops): an ops no longer needs its trampoline, and no task is in
 * it; @ops may be NULL. Context: process, with ftrace_lock held or not. Not 0: the exit has done
 * it, and cleared ops->trampoline.
 */
DECLARE_GKHOOK(trampoline_free, 1, GKH_RO);

/* Changes of a function's ops. */
enum ftrace_set_event {
	/* an ops was added */
	FTRACE_SET_ADD,
	/* an ops was removed */
	FTRACE_SET_REMOVE,
	/* the function is removed, or should have no number */
	FTRACE_SET_DROP,
	/* no change; the function has no number */
	FTRACE_SET_FIND,
};

struct ftrace_set_change {
	enum ftrace_set_event event;
	/* the site, and the function's current number of ops */
	unsigned long ip;
	unsigned long count;
	/* the ops that was added or removed */
	struct ftrace_ops *ops;
	/* the old number of the function's set; the exit stores the new one, or 0 for none */
	unsigned long set;
};

/*
 * trampoline_set(struct ftrace_set_change *change): the ops of a function have changed. Context:
 * process, with ftrace_lock held. Not 0: the exit has set @change->set. An exit has to count the
 * functions that have a number.
 */
DECLARE_GKHOOK(trampoline_set, 1, GKH_RO);

enum ftrace_sets_step {
	/*
	 * sites are about to be changed: ftrace_set_addresses must be set for the functions that
	 * have a number
	 */
	FTRACE_SETS_CHANGE,
	/* each site calls its new set: tasks in trampolines without functions will leave them */
	FTRACE_SETS_CHANGED,
	/*
	 * instead of the last: ftrace has given up, and a site may call its old set, also an ops
	 * that is being removed
	 */
	FTRACE_SETS_GIVEN_UP,
};

/*
 * trampoline_sets(enum ftrace_sets_step step): between the first two steps, functions change from
 * one set to another. Context: as for trampoline_set. The answer is ignored.
 */
DECLARE_GKHOOK(trampoline_sets, 1, GKH_RO);

/* Changes of the functions of a struct ftrace_data_ops. */
enum ftrace_data_event {
	/* there are new functions: those whose stub is 0 */
	FTRACE_DATA_ATTACH,
	/*
	 * the stubs of these functions are not called any longer; a task that has called one may be
	 * in it
	 */
	FTRACE_DATA_DETACHED,
	/* as before, for all functions that the ops had; and the ops is unused */
	FTRACE_DATA_RELEASED,
};

struct ftrace_data_entry {
	unsigned long ip;
	void *data;
	/* the address that the site calls if the ops is the only one of the function */
	unsigned long stub;
};

struct ftrace_data_change {
	struct ftrace_data_ops *ops;
	enum ftrace_data_event event;
	/* the functions, sorted by ip */
	struct ftrace_data_entry *entries;
	unsigned int count;
};

/*
 * trampoline_data(struct ftrace_data_change *change): the exit makes stubs, and frees them;
 * functions without one call the trampoline of the ops. Context: as for trampoline_set. The answer
 * is ignored.
 */
DECLARE_GKHOOK(trampoline_data, 1, GKH_RO);

/*
 * gcov_object(struct gcov_info *info): the constructor of an object that GCC compiled for coverage.
 * Context: process, with the lock that gcov_hand_over() takes; at boot before initcalls, when no
 * exit can be armed yet, and while a module is loaded. Not 0: the exit keeps the object, and no
 * later one gets it.
 */
DECLARE_GKHOOK(gcov_object, 1, GKH_RO);

/*
 * llvm_gcov_object(void (*writeout)(void), void (*flush)(void)): as gcov_object, for an object that
 * LLVM compiled.
 */
DECLARE_GKHOOK(llvm_gcov_object, 2, GKH_RO);

/*
 * module_event(struct module *module, unsigned long state): a module's state is now @state, of enum
 * module_state, as for a module notifier. Context: process. The answer is ignored. The exits of a
 * module that is unloaded are removed before.
 */
DECLARE_GKHOOK(module_event, 2, GKH_RO);

/*
 * cpu_prepare(unsigned int cpu): a CPU is about to be brought up. Context: process, on another CPU,
 * with CPU hotplug held for writing; exits are neither registered nor armed there. An exit that
 * makes it return a negative errno keeps the CPU down.
 */
DECLARE_GKHOOK(cpu_prepare, 1, GKH_RO_RET);

#endif /* _LINUX_GKHI_POINTS_H */
