/* SPDX-License-Identifier: GPL-2.0 */
/* C half of deferred_drop.rs. Not part of the bindings: it declares these functions itself. */
#ifndef _FERROTRACE_DEFERRED_H
#define _FERROTRACE_DEFERRED_H

#include <linux/llist.h>
#include <linux/types.h>

struct module;

/* An item for a work queue. */
struct ferro_deferred {
	struct llist_node node;
	void (*run)(struct ferro_deferred *deferred);
};

/* True if the caller may sleep. Context: any. */
bool ferro_may_sleep(void);

/*
 * Calls @run with @deferred, once, in a work item, which runs before the module of @run is freed.
 * Context: any.
 */
void ferro_defer(struct ferro_deferred *deferred, void (*run)(struct ferro_deferred *deferred));

/* tracepoint.rs: removes probes that a module in state GOING has left on tracepoints. */
void ferro_tracepoints_going(struct module *mod);

#endif /* _FERROTRACE_DEFERRED_H */
