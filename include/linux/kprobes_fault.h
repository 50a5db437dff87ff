/* SPDX-License-Identifier: GPL-2.0 */
/* Kprobes with a handler for faults. See Documentation/kprobes.rst of Ferrotrace. */
#ifndef _LINUX_KPROBES_FAULT_H
#define _LINUX_KPROBES_FAULT_H

#include <linux/kprobes.h>

#ifdef CONFIG_KPROBES_ENGINE_RUST

/**
 * typedef kprobe_fault_handler_t - handles faults at a probe
 * @p: the probe
 * @regs: the registers at the fault. If the probed instruction faulted, @regs->ip is that
 *	instruction's address. If the handler leaves @regs->ip unchanged, the instruction is
 *	executed again without another hit of the probe, except that a branch through memory hits
 *	it again.
 * @trapnr: 14 for a page fault, 13 for a general protection fault, 0 for a divide error
 *
 * Called when the probed instruction faults, or code that runs in a handler of the probe or
 * interrupts it. Faults in the fault handler itself are left to the kernel. Page faults and divide
 * errors are passed to the handler first; general protection faults only if the exception table has
 * no entry for the faulting instruction, or if that is the probed one.
 *
 * Context: fault: interrupts are usually off; must not sleep.
 * Return: not 0 if the fault is handled and execution is to continue with @regs; 0 if not:
 *	then the exception table is searched, and without an entry there the kernel reports an
 *	Oops.
 */
typedef int (*kprobe_fault_handler_t)(struct kprobe *p, struct pt_regs *regs, int trapnr);

/**
 * register_kprobe_fault() - register a kprobe with a handler for faults
 * @kp: the probe, as for register_kprobe()
 * @handler: called when there is a fault
 *
 * unregister_kprobe() undoes it.
 *
 * Context: process; sleeps.
 * Return: 0, -EINVAL if @handler is NULL, or the error of register_kprobe().
 */
int register_kprobe_fault(struct kprobe *kp, kprobe_fault_handler_t handler);

#endif /* CONFIG_KPROBES_ENGINE_RUST */

#endif /* _LINUX_KPROBES_FAULT_H */
