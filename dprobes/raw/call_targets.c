// SPDX-License-Identifier: GPL-2.0
/*
 * Functions that probe programs call, and functions that handle their exits. A call is an RCU
 * read-side critical section: interrupts are off.
 */
#include <linux/dprobes.h>
#include <linux/errno.h>
#include <linux/export.h>
#include <linux/rcupdate.h>

#include "bindings.h"

typedef unsigned long (*callee_t)(unsigned long argument);

/* Changed by cmpxchg() and xchg(). */
static callee_t callees[DPROBES_CALLS];

int dprobes_register_call(unsigned int number, unsigned long (*call)(unsigned long argument))
{
	if (number >= DPROBES_CALLS || !call)
		return -EINVAL;
	return cmpxchg(&callees[number], NULL, call) ? -EBUSY : 0;
}
EXPORT_SYMBOL_GPL(dprobes_register_call);

void dprobes_unregister_call(unsigned int number)
{
	if (number >= DPROBES_CALLS)
		return;
	xchg(&callees[number], NULL);
	synchronize_rcu();
}
EXPORT_SYMBOL_GPL(dprobes_unregister_call);

typedef void (*exit_t)(const struct dprobes_exit *exit);

/* Changed by cmpxchg() and xchg(). */
static exit_t exits[DPROBES_EXITS];

int dprobes_register_exit(unsigned int number, void (*exit)(const struct dprobes_exit *exit))
{
	if (number < DPROBES_EXIT_FIRST || number >= DPROBES_EXITS || !exit)
		return -EINVAL;
	return cmpxchg(&exits[number], NULL, exit) ? -EBUSY : 0;
}
EXPORT_SYMBOL_GPL(dprobes_register_exit);

void dprobes_unregister_exit(unsigned int number)
{
	if (number >= DPROBES_EXITS)
		return;
	xchg(&exits[number], NULL);
	synchronize_rcu();
}
EXPORT_SYMBOL_GPL(dprobes_unregister_exit);

notrace void ferro_dprobes_exit(unsigned int number, const struct dprobes_exit *left)
{
	exit_t exit = number < DPROBES_EXITS ? READ_ONCE(exits[number]) : NULL;

	if (exit)
		exit(left);
}

notrace bool ferro_dprobes_call(unsigned int number, unsigned long argument, unsigned long *result)
{
	callee_t call = number < DPROBES_CALLS ? READ_ONCE(callees[number]) : NULL;

	if (!call)
		return false;
	*result = call(argument);
	return true;
}
