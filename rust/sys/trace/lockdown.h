/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Functions for lockdown.rs, which declares them itself: not part of the bindings.
 */
#ifndef _FERROTRACE_SYS_LOCKDOWN_H
#define _FERROTRACE_SYS_LOCKDOWN_H

#include <linux/types.h>

/* security.h: whether lockdown forbids to read the kernel's memory by probes; that is logged. Context: process. */
bool ferro_lockdown_forbids_probes(void);
/* The same for what was traced. */
bool ferro_lockdown_forbids_traces(void);
/* The same for writing to it, or to registers. */
bool ferro_lockdown_forbids_writes(void);

#endif /* _FERROTRACE_SYS_LOCKDOWN_H */
