/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The hook points of the kernel: hooks at the places where it calls into its tracing engines. They are
 * defined in kernel/ferrotrace/rust/gkhi/points.c. The engines attach exits to them; so can any module.
 *
 * An answer that is not 0 says that the exit has dealt with the event; the comment at each hook says what the kernel
 * does then.
 */
#ifndef _LINUX_GKHI_POINTS_H
#define _LINUX_GKHI_POINTS_H

#include <linux/gkhi.h>

/*
 * int3(struct pt_regs *regs): a breakpoint instruction, in the kernel or in user space, before kprobes and the die
 * notifiers. Context: trap, as in an NMI if it is the kernel's. Not 0: the trap is dealt with, and execution continues
 * at @regs->ip.
 */
DECLARE_GKHOOK(int3, 1, GKH_RO);

/*
 * debug(struct pt_regs *regs, unsigned long *dr6): a debug trap, such as the one after a single step,
 * before the die notifiers. Context: trap, as in an NMI if it is the kernel's. The bits of DR6 have positive
 * polarity; the exit clears those that it has dealt with. Not 0: the trap is dealt with.
 */
DECLARE_GKHOOK(debug, 2, GKH_RO);

/*
 * kernel_fault(struct pt_regs *regs, unsigned long trapnr, unsigned long address): a page fault of the kernel that is
 * not spurious, before it is handled, or a general protection fault (@address is 0) for which there is no fix-up.
 * Context: trap; may or may not be preemptible. Not 0: the fault is dealt with, and execution continues at @regs->ip.
 */
DECLARE_GKHOOK(kernel_fault, 3, GKH_RO);

/*
 * task_fork(struct task_struct *task, unsigned long clone_flags): a task is complete and not running yet.
 * Context: process, of the parent. The answer does not matter.
 */
DECLARE_GKHOOK(task_fork, 2, GKH_RO);

/*
 * task_exit(struct task_struct *task): a task that has exited can no longer be found, and is about to be freed.
 * Context: RCU callback, usually in a soft interrupt. The answer does not matter.
 */
DECLARE_GKHOOK(task_exit, 1, GKH_RO);

/*
 * uprobe_done(struct pt_regs *regs, unsigned long address, bool executed): consumers of a uprobe have been called for the
 * instruction at @address, which has been executed or not: a consumer has set another instruction pointer, it has faulted, or is
 * about to be executed again. Between the two the task has been in user space if the instruction was executed in a copy; the hook
 * is not called for a task that is killed there. Context: process, of the task that hit it. The answer does not matter.
 */
DECLARE_GKHOOK(uprobe_done, 3, GKH_RO);

/*
 * trampoline_update(struct ftrace_ops *ops): an ops needs its trampoline made or changed. Context: process,
 * with ftrace_lock held. Not 0: the exit has done it, and has set ops->trampoline, ->trampoline_size and, if
 * trampoline_free is to fire for it, FTRACE_OPS_FL_ALLOC_TRAMP. The exit must stay armed as long as it has trampolines.
 */
DECLARE_GKHOOK(trampoline_update, 1, GKH_RO);

/*
 * trampoline_free(struct ftrace_ops *ops): an ops no longer needs its trampoline, and no task is in it; @ops may be
 * NULL. Context: process, with ftrace_lock held or not. Not 0: the exit has done it, and cleared ops->trampoline.
 */
DECLARE_GKHOOK(trampoline_free, 1, GKH_RO);

/* What happened to the ops of a function. */
enum ftrace_set_event {
	/* one was added */
	FTRACE_SET_ADD,
	/* one was taken out */
	FTRACE_SET_REMOVE,
	/* the function goes, or is to have no number any more */
	FTRACE_SET_DROP,
	/* nothing; the function has no number */
	FTRACE_SET_FIND,
};

struct ftrace_set_change {
	enum ftrace_set_event event;
	/* the site, and how many ops the function has now */
	unsigned long ip;
	unsigned long count;
	/* which was added or taken out */
	struct ftrace_ops *ops;
	/* the number of the function's set before; the exit sets that of the new one, or 0 for none */
	unsigned long set;
};

/*
 * trampoline_set(struct ftrace_set_change *change): a function has other ops. Context: process, with ftrace_lock held.
 * Not 0: the exit has set @change->set. An exit has to count the functions that have a number.
 */
DECLARE_GKHOOK(trampoline_set, 1, GKH_RO);

enum ftrace_sets_step {
	/* sites are about to be changed: ftrace_set_addresses must have what functions that have a number are to call */
	FTRACE_SETS_CHANGE,
	/* each site calls what it is to call: who is in a trampoline that no function has will leave */
	FTRACE_SETS_CHANGED,
	/* instead of the last: ftrace has given up, and a site may call what it called before, also an ops that is just going */
	FTRACE_SETS_GIVEN_UP,
};

/*
 * trampoline_sets(enum ftrace_sets_step step): between the first two, functions change from one set to another. Context: as
 * for trampoline_set. The answer does not matter.
 */
DECLARE_GKHOOK(trampoline_sets, 1, GKH_RO);

/* What happens to the functions of a struct ftrace_data_ops. */
enum ftrace_data_event {
	/* there are new ones: those whose stub is 0 */
	FTRACE_DATA_ATTACH,
	/* nobody calls the stubs of these any more; who has called may be in one */
	FTRACE_DATA_DETACHED,
	/* as before, for all that there were; and the ops is not used any more */
	FTRACE_DATA_RELEASED,
};

struct ftrace_data_entry {
	unsigned long ip;
	void *data;
	/* what the site calls if the ops is the only one of the function */
	unsigned long stub;
};

struct ftrace_data_change {
	struct ftrace_data_ops *ops;
	enum ftrace_data_event event;
	/* they, sorted by ip */
	struct ftrace_data_entry *entries;
	unsigned int count;
};

/*
 * trampoline_data(struct ftrace_data_change *change): the exit makes stubs, and frees them; those without one call the ops's
 * trampoline. Context: as for trampoline_set. The answer does not matter.
 */
DECLARE_GKHOOK(trampoline_data, 1, GKH_RO);

/*
 * gcov_object(struct gcov_info *info): the constructor of an object that was compiled by GCC for coverage.
 * Context: process, with the lock held with which gcov_hand_over() hands over; at boot before initcalls, when no exit can be
 * there yet, and while a module is loaded. Not 0: the exit keeps the object, and nobody else gets it.
 */
DECLARE_GKHOOK(gcov_object, 1, GKH_RO);

/*
 * llvm_gcov_object(void (*writeout)(void), void (*flush)(void)): the same for one that was compiled by LLVM.
 */
DECLARE_GKHOOK(llvm_gcov_object, 2, GKH_RO);

/*
 * module_event(struct module *module, unsigned long state): a module's state is now @state, of enum module_state, as
 * for a module notifier. Context: process. The answer does not matter. The exits of a module that goes are removed
 * before.
 */
DECLARE_GKHOOK(module_event, 2, GKH_RO);

/*
 * cpu_prepare(unsigned int cpu): a CPU is about to come up. Context: process, on another CPU, with
 * CPU hotplug held for writing; exits are neither registered nor armed there. An exit that makes it return a
 * negative errno keeps the CPU down.
 */
DECLARE_GKHOOK(cpu_prepare, 1, GKH_RO_RET);

#endif /* _LINUX_GKHI_POINTS_H */
