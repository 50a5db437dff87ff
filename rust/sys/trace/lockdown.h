/* SPDX-License-Identifier: GPL-2.0 */
/* Functions for lockdown.rs, which declares them itself: not part of the bindings. */
#ifndef _FERROTRACE_SYS_LOCKDOWN_H
#define _FERROTRACE_SYS_LOCKDOWN_H

#include <linux/types.h>

/*
 * security.h: true if lockdown forbids reading kernel memory by probes; logs the attempt. Context:
 * process.
 */
bool ferro_lockdown_forbids_probes(void);
/* Checks for reading traced data. */
bool ferro_lockdown_forbids_traces(void);
/* Checks for writing to kernel memory or registers. */
bool ferro_lockdown_forbids_writes(void);

#endif /* _FERROTRACE_SYS_LOCKDOWN_H */
