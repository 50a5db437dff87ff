/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Kernel headers for the relay engine and the safe API on top of it, and declarations that the
 * engine's C and Rust share.
 */
#ifndef _FERROTRACE_RELAY_BINDINGS_H
#define _FERROTRACE_RELAY_BINDINGS_H

#include <linux/pipe_fs_i.h>
#include <linux/relay.h>
#include <linux/stddef.h>

struct mutex;

/* Protects the list of open channels. */
extern struct mutex relay_rust_mutex;

/* As in rust/sys/bindings.h. */
enum {
	FERRO_OFFSET_pipe_buffer_private = offsetof(struct pipe_buffer, private),
	FERRO_OFFSET_pipe_buf_operations_release = offsetof(struct pipe_buf_operations, release),
	FERRO_OFFSET_pipe_buf_operations_get = offsetof(struct pipe_buf_operations, get),
	FERRO_OFFSET_rchan_private_data = offsetof(struct rchan, private_data),
	FERRO_OFFSET_rchan_buf = offsetof(struct rchan, buf),
	FERRO_OFFSET_rchan_base_filename = offsetof(struct rchan, base_filename),
	FERRO_OFFSET_rchan_buf_wakeup_work = offsetof(struct rchan_buf, wakeup_work),
	FERRO_OFFSET_rchan_buf_kref = offsetof(struct rchan_buf, kref),
	FERRO_OFFSET_rchan_buf_padding = offsetof(struct rchan_buf, padding),
	FERRO_OFFSET_rchan_buf_cpu = offsetof(struct rchan_buf, cpu),
};

enum {
	FERRO_SIZE_rchan = sizeof(struct rchan),
	FERRO_SIZE_rchan_buf = sizeof(struct rchan_buf),
};

#endif /* _FERROTRACE_RELAY_BINDINGS_H */
