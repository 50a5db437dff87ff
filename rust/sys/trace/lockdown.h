/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A function for lockdown.rs, which declares it itself: not part of the bindings.
 */
#ifndef _FERROTRACE_SYS_LOCKDOWN_H
#define _FERROTRACE_SYS_LOCKDOWN_H

#include <linux/types.h>

/* security.h: whether lockdown forbids to read the kernel's memory by probes; that is logged. Context: process. */
bool ferro_lockdown_forbids_probes(void);

#endif /* _FERROTRACE_SYS_LOCKDOWN_H */
