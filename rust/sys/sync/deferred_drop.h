/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The C half of deferred_drop.rs. Not part of the bindings: it declares these functions itself.
 */
#ifndef _FERROTRACE_DEFERRED_H
#define _FERROTRACE_DEFERRED_H

#include <linux/llist.h>
#include <linux/types.h>

struct module;

/* Something to be done by a work item. */
struct ferro_deferred {
	struct llist_node node;
	void (*run)(struct ferro_deferred *deferred);
};

/* Whether the caller may sleep. Context: any. */
bool ferro_may_sleep(void);

/* Has @run called with @deferred, once, by a work item, which runs before the module of @run goes. Context: any. */
void ferro_defer(struct ferro_deferred *deferred, void (*run)(struct ferro_deferred *deferred));

/* Waits until all that was deferred before is done. Context: process; sleeps; not from a run. */
void ferro_wait_deferred(void);

/* tracepoint.rs: a module goes, and has perhaps left probes on tracepoints. */
void ferro_tracepoints_going(struct module *mod);

#endif /* _FERROTRACE_DEFERRED_H */
