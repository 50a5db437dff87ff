/* SPDX-License-Identifier: GPL-2.0 */
/* Kernel headers for fast channels, and declarations that their C and Rust share. */
#ifndef _FERROTRACE_RELAY_FAST_BINDINGS_H
#define _FERROTRACE_RELAY_FAST_BINDINGS_H

#include <linux/ferrotrace_relay.h>
#include <linux/kmsg_dump.h>

struct mutex;

/* Protect the list of open channels and the list of persistent memory. */
extern struct mutex relay_fast_mutex;
extern struct mutex relay_fast_persistent_mutex;

enum {
	FERRO_SIZE_relay_fast_ctl = sizeof(struct relay_fast_ctl),
};

/* persistent.c: boot, time and kernel release at the opening of a channel. */
struct relay_fast_origin {
	u64 boot[2];
	u64 monotonic_ns;
	u64 real_ns;
	char release[64];
};

void relay_fast_origin(struct relay_fast_origin *origin);
/* Flushes @size bytes from the caches to memory. */
void relay_fast_flush(void *start, size_t size);
/* Register and unregister relay_fast_dump(); 0 or a negative errno. */
int relay_fast_dump_register(void);
void relay_fast_dump_unregister(void);

/* exports.rs: called when the kernel panics, restarts or halts. Context: any. */
void relay_fast_dump(unsigned int reason);

#endif /* _FERROTRACE_RELAY_FAST_BINDINGS_H */
