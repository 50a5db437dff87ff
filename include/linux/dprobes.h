/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Registration of functions that probe programs can call, or end with. See
 * Documentation/dprobes.rst of Ferrotrace.
 */
#ifndef _LINUX_DPROBES_H
#define _LINUX_DPROBES_H

#include <linux/types.h>

/* Numbers of functions are less than this. */
#define DPROBES_CALLS	64

/**
 * dprobes_register_call() - let probe programs call a function
 * @number: number of the function in programs (``callk NUMBER``), less than %DPROBES_CALLS
 * @call: the function; gets the top of the program's stack, which its result replaces. It is
 *	called in any context, NMI included, with interrupts off: it must not sleep, nor take a
 *	lock.
 *
 * Only programs that were loaded with unsafe writes allowed call functions.
 *
 * Context: process.
 * Return: 0, -EINVAL if the number is too large or there is no function, or -EBUSY if the
 *	number is taken.
 */
int dprobes_register_call(unsigned int number, unsigned long (*call)(unsigned long argument));

/**
 * dprobes_unregister_call() - undo dprobes_register_call()
 * @number: its number
 *
 * When this returns, no program executes the function.
 *
 * Context: process; sleeps.
 */
void dprobes_unregister_call(unsigned int number);

/* Range of exit numbers for modules: from DPROBES_EXIT_FIRST to DPROBES_EXITS - 1. */
#define DPROBES_EXIT_FIRST	4
#define DPROBES_EXITS		64

/**
 * struct dprobes_exit - data that a program passes to its exit function
 * @major: the major number of its record
 * @minor: the minor number
 * @log: its logged entries: a byte with their kind, two bytes with a length, and as many
 *	bytes, or eight with an address where the length is 0xffff (``dprobes/core/record.rs``
 *	has the kinds); valid during the call
 * @len: the bytes of @log
 */
struct dprobes_exit {
	__u32 major;
	__u32 minor;
	const void *log;
	size_t len;
};

/**
 * dprobes_register_exit() - let probe programs end with a function
 * @number: number of the function in programs (``exit NUMBER``), from %DPROBES_EXIT_FIRST to
 *	%DPROBES_EXITS - 1
 * @exit: the function. It is called in any context, NMI included, with interrupts off,
 *	before the probed instruction: it must not sleep, nor take a lock. The program's record
 *	is written before that.
 *
 * Only programs that were loaded with unsafe writes allowed call the function. Without a function,
 * such an end is like ``exit``.
 *
 * Context: process.
 * Return: 0, -EINVAL if the number is out of range or there is no function, or -EBUSY if the
 *	number is taken.
 */
int dprobes_register_exit(unsigned int number, void (*exit)(const struct dprobes_exit *exit));

/**
 * dprobes_unregister_exit() - undo dprobes_register_exit()
 * @number: its number
 *
 * When this returns, no program executes the function.
 *
 * Context: process; sleeps.
 */
void dprobes_unregister_exit(unsigned int number);

#endif /* _LINUX_DPROBES_H */
