/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What fast channels need of the kernel's headers, and what their C and their
 * Rust share.
 */
#ifndef _FERROTRACE_RELAY_FAST_BINDINGS_H
#define _FERROTRACE_RELAY_FAST_BINDINGS_H

#include <linux/ferrotrace_relay.h>
#include <linux/kmsg_dump.h>

struct mutex;

/* For the list of open channels, and for what is known of memory that survives a reboot. */
extern struct mutex relay_fast_mutex;
extern struct mutex relay_fast_flight_mutex;

enum {
	FERRO_SIZE_relay_fast_ctl = sizeof(struct relay_fast_ctl),
};

/* persistent.c: when and where a channel is opened. */
struct relay_fast_origin {
	u64 boot[2];
	u64 monotonic_ns;
	u64 real_ns;
	char release[64];
};

void relay_fast_origin(struct relay_fast_origin *origin);
/* Writes what the caches have of @size bytes to memory. */
void relay_fast_flush(void *start, size_t size);
/* Have relay_fast_dump() called; 0 or a negative errno. */
int relay_fast_dump_register(void);
void relay_fast_dump_unregister(void);

/* exports.rs: the kernel panics, restarts or halts. Context: any. */
void relay_fast_dump(unsigned int reason);

#endif /* _FERROTRACE_RELAY_FAST_BINDINGS_H */
