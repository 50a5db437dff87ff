// SPDX-License-Identifier: GPL-2.0
/*
 * Functions that probe programs call. A call is a read-side section of RCU: preemption is off.
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

notrace bool ferro_dprobes_call(unsigned int number, unsigned long argument, unsigned long *result)
{
	callee_t call = number < DPROBES_CALLS ? READ_ONCE(callees[number]) : NULL;

	if (!call)
		return false;
	*result = call(argument);
	return true;
}
