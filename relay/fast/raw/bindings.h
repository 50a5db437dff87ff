/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What fast channels need of the kernel's headers, and what their C and their
 * Rust share.
 */
#ifndef _FERROTRACE_RELAY_FAST_BINDINGS_H
#define _FERROTRACE_RELAY_FAST_BINDINGS_H

#include <linux/ferrotrace_relay.h>

struct mutex;

/* For the list of open channels. */
extern struct mutex relay_fast_mutex;

enum {
	FERRO_SIZE_relay_fast_ctl = sizeof(struct relay_fast_ctl),
};

#endif /* _FERROTRACE_RELAY_FAST_BINDINGS_H */
