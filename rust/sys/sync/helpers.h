/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Wrappers for macros and static inline functions, which Rust cannot call. Each is named after the
 * macro or function that it wraps.
 */
#ifndef _FERROTRACE_SYS_SYNC_HELPERS_H
#define _FERROTRACE_SYS_SYNC_HELPERS_H

#include <linux/types.h>

struct wait_queue_head;

/* wait.h */
bool ferro_waitqueue_active(struct wait_queue_head *head);

/*
 * For nmi_lock.rs: the number of locks that this CPU held or awaited before. With interrupts off.
 */
unsigned int ferro_owner_locks_enter(void);
void ferro_owner_locks_exit(void);

#endif /* _FERROTRACE_SYS_SYNC_HELPERS_H */
