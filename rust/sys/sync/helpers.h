/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Functions for what Rust cannot call: macros and static inline functions.
 * Each does what the macro or function in its name does.
 */
#ifndef _FERROTRACE_SYS_SYNC_HELPERS_H
#define _FERROTRACE_SYS_SYNC_HELPERS_H

#include <linux/types.h>

struct wait_queue_head;

/* wait.h */
bool ferro_waitqueue_active(struct wait_queue_head *head);

/* For nmi_lock.rs: how many locks this CPU held or awaited before. With interrupts off. */
unsigned int ferro_owner_locks_enter(void);
void ferro_owner_locks_exit(void);

#endif /* _FERROTRACE_SYS_SYNC_HELPERS_H */
