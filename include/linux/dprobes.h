/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Functions that probe programs can call. See Documentation/dprobes.rst of Ferrotrace.
 */
#ifndef _LINUX_DPROBES_H
#define _LINUX_DPROBES_H

#include <linux/types.h>

/* Numbers of functions are less than this. */
#define DPROBES_CALLS	64

/**
 * dprobes_register_call() - let probe programs call a function
 * @number: what programs call it by (``callk NUMBER``), less than %DPROBES_CALLS
 * @call: the function; gets the top of the program's stack, which its result replaces. It is called in any context, NMI included,
 *	with preemption off: it must not sleep, nor take a lock.
 *
 * Only programs that were loaded with unsafe writes allowed call functions.
 *
 * Context: process.
 * Return: 0, -EINVAL if the number is too large or there is no function, or -EBUSY if there is one with this number.
 */
int dprobes_register_call(unsigned int number, unsigned long (*call)(unsigned long argument));

/**
 * dprobes_unregister_call() - undo dprobes_register_call()
 * @number: its number
 *
 * When this returns, no program executes the function any more.
 *
 * Context: process; sleeps.
 */
void dprobes_unregister_call(unsigned int number);

#endif /* _LINUX_DPROBES_H */
