/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Jprobes: handlers at the entry of functions, which get the function's arguments as their own. See
 * Documentation/kprobes.rst of Ferrotrace.
 */
#ifndef _LINUX_JPROBES_H
#define _LINUX_JPROBES_H

#include <linux/errno.h>
#include <linux/kprobes.h>

#ifdef CONFIG_KPROBES

/* Size of the stack arguments that a handler sees, in bytes. */
#define JPROBE_STACK_SIZE	64

/**
 * struct jprobe - a handler with the parameters of the function that it probes
 * @kp: place of the probe: @kp.symbol_name or @kp.addr, and %KPROBE_FLAG_DISABLED in
 *	@kp.flags if it is to be enabled later. @kp.nmissed counts the calls of the function that
 *	occurred while another handler was running on that CPU. The client must not set the
 *	handlers of @kp.
 * @entry: the handler, a function with the parameters and the return type of the probed one
 *
 * The handler is called before the first instruction of the function, with preemption off, usually
 * with interrupts off, and possibly in an NMI: it must not sleep. It ends with jprobe_return(), or
 * returns; its return value is ignored.
 *
 * It has copies of the arguments: those in registers, and %JPROBE_STACK_SIZE bytes of those on the
 * stack. The probed function does not see changes to them.
 */
struct jprobe {
	struct kprobe kp;
	void *entry;
};

/**
 * register_jprobe() - make the entry of a function call a handler
 * @jp: the jprobe; it must stay in place until it has been unregistered
 *
 * The reason for a refusal is logged. After a failure @jp is unchanged, so that the call can be
 * repeated.
 *
 * Context: process; sleeps.
 * Return: 0, -EINVAL if @jp or its handler is missing, if the handler is not code, if @jp
 *	has handlers of kprobes or is registered, or if the place is not the entry of a function;
 *	or the error of register_kprobe().
 */
int register_jprobe(struct jprobe *jp);

/**
 * unregister_jprobe() - undo register_jprobe()
 * @jp: the jprobe; nothing happens if it is NULL or not registered
 *
 * No CPU runs the handler when this returns.
 *
 * Context: process; sleeps.
 */
void unregister_jprobe(struct jprobe *jp);

/**
 * register_jprobes() - register several, or none
 * @jps: the jprobes
 * @num: number of jprobes
 *
 * Context: process; sleeps.
 * Return: 0, -EINVAL if @num is not positive, or the error of register_jprobe() for the
 *	first refused one.
 */
int register_jprobes(struct jprobe **jps, int num);

/**
 * unregister_jprobes() - unregister several, in the time of one
 * @jps: the jprobes; those that are NULL or not registered are skipped
 * @num: number of jprobes
 *
 * Context: process; sleeps.
 */
void unregister_jprobes(struct jprobe **jps, int num);

/**
 * jprobe_return() - end a jprobe's handler
 *
 * For the handler, and for functions that it calls: returns to the caller of the handler, and does
 * not return here. Resources that these functions hold are not released: they have to release locks
 * first.
 *
 * Context: a jprobe's handler. Elsewhere it warns, once, and returns.
 */
void jprobe_return(void);

/**
 * disable_jprobe() - stop calling the handler
 * @jp: a registered jprobe; its handler may still be running afterwards
 *
 * Context: process; sleeps.
 * Return: 0, or -EINVAL if it is not registered or its function was unloaded.
 */
static inline int disable_jprobe(struct jprobe *jp)
{
	return jp ? disable_kprobe(&jp->kp) : -EINVAL;
}

/**
 * enable_jprobe() - call the handler again
 * @jp: a registered jprobe
 *
 * Context: process; sleeps.
 * Return: 0, or -EINVAL if it is not registered or its function was unloaded.
 */
static inline int enable_jprobe(struct jprobe *jp)
{
	return jp ? enable_kprobe(&jp->kp) : -EINVAL;
}

#endif /* CONFIG_KPROBES */

#endif /* _LINUX_JPROBES_H */
