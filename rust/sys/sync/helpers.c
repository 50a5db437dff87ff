// SPDX-License-Identifier: GPL-2.0
/* Wrappers for macros and static inline functions, which Rust cannot call. */
#include <linux/export.h>
#include <linux/percpu.h>
#include <linux/wait.h>

#include "helpers.h"

bool ferro_waitqueue_active(struct wait_queue_head *head)
{
	/* The caller provides the barrier, see WaitQueue::is_active(). */
	return waitqueue_active(head);
}
EXPORT_SYMBOL_GPL(ferro_waitqueue_active);

/* Number of locks of nmi_lock.rs that this CPU holds or awaits. */
static DEFINE_PER_CPU(unsigned int, owner_locks);

unsigned int ferro_owner_locks_enter(void)
{
	/* One instruction: NMIs nest. */
	return this_cpu_inc_return(owner_locks) - 1;
}
EXPORT_SYMBOL_GPL(ferro_owner_locks_enter);

void ferro_owner_locks_exit(void)
{
	this_cpu_dec(owner_locks);
}
EXPORT_SYMBOL_GPL(ferro_owner_locks_exit);
