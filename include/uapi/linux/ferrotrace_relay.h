/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * Fast relay channels, as user space sees them.
 *
 * A channel has a file for each CPU. A mapping of one has, from offset 0 on,
 *
 *	struct relay_fast_ctl		RELAY_FAST_CTL		the kernel's page, read-only
 *	struct relay_fast_consumer	RELAY_FAST_CONSUMER	the reader's page, may be mapped writable
 *	data				RELAY_FAST_DATA		n_subbufs * subbuf_size bytes, read-only
 *
 * A position counts the bytes of a buffer since it was created, padding included. Records are at
 * positions that are multiples of 8, and position P is at byte P & mask of the data. Both sizes are
 * powers of two.
 *
 * Reading takes no system call. With one reader per buffer,
 *
 *	end = relay_fast_committed(ctl);
 *	while (position < end) {
 *		the record at position: take it, unless it is padding or discarded;
 *		position += relay_fast_record_size(record);
 *	}
 *	store position to consumer->consumed, with release;
 *
 * When nothing is left, poll() sleeps until there are consumer->watermark bytes. This needs no
 * flush, and no sub-buffer ends early. The kernel learns from poll() that a reader waits, and for
 * how much. So poll() has to be called for each wait: an edge-triggered epoll, or a poll request of
 * io_uring that reports more than once, may not report again.
 *
 * Records never cross the end of a sub-buffer, so each sub-buffer starts with one. In an overwrite
 * channel (RELAY_FAST_OVERWRITE) the writer does not wait: a record that has been copied out is
 * valid only if relay_fast_kept(ctl) is not beyond its position; before that check its length may
 * be any number. A reader that was overtaken continues at relay_fast_kept(). read() does all this
 * by itself, and leaves out padding.
 */
#ifndef _UAPI_LINUX_FERROTRACE_RELAY_H
#define _UAPI_LINUX_FERROTRACE_RELAY_H

#include <linux/types.h>

#define RELAY_FAST_MAGIC	0x796c7266	/* "frly" */
#define RELAY_FAST_VERSION	1

/* Offsets in the file. */
#define RELAY_FAST_CTL		0
#define RELAY_FAST_CONSUMER	4096
#define RELAY_FAST_DATA		8192

/* relay_fast_ctl.flags */
#define RELAY_FAST_OVERWRITE	0x1	/* the oldest records are lost, not the newest */

/* relay_fast_ctl.reserve: a position, and the number of records that are being written. */
#define RELAY_FAST_POSITION_SHIFT	2
#define RELAY_FAST_IN_FLIGHT		0x1f

/**
 * struct relay_fast_ctl - the kernel's side of a buffer
 * @reserve: position of the next record << 2 | number of records that are being written
 * @limit: private to the kernel
 * @mask: bytes of data - 8
 * @committed: everything before this position is complete. While @reserve has no record in
 *	flight it may lag; see relay_fast_committed()
 * @lost: lost records: no sub-buffer was free, they were too long, or too many were open
 * @overwritten: bytes, padding included, that were overwritten while at or after
 *	relay_fast_consumer.consumed. That is at least the unread data, and more if the reader
 *	updates its position late or never
 * @stalled: not 0 from the loss of a record because no sub-buffer was free, until one is
 *	entered
 * @closed: not 0 when the channel has been closed and no more data will arrive
 * @magic: RELAY_FAST_MAGIC
 * @version: RELAY_FAST_VERSION
 * @cpu: the CPU that writes
 * @flags: RELAY_FAST_OVERWRITE or 0
 * @subbuf_size: bytes of a sub-buffer
 * @n_subbufs: number of sub-buffers
 */
struct relay_fast_ctl {
	__u64 reserve;
	__u64 limit;
	__u64 mask;
	__u64 committed;
	__u64 lost;
	__u64 overwritten;
	__u64 stalled;
	__u64 closed;

	__u32 magic;
	__u32 version;
	__u32 cpu;
	__u32 flags;
	__u64 subbuf_size;
	__u64 n_subbufs;
};

/**
 * struct relay_fast_consumer - the reader's side of a buffer
 * @consumed: everything before this position has been read
 * @watermark: number of unread bytes for which poll() waits; 0 for a sub-buffer. At most
 *	half of the buffer counts.
 */
struct relay_fast_consumer {
	__u64 consumed;
	__u64 watermark;
};

/* relay_fast_record.flags */
#define RELAY_FAST_TIMED	0x1	/* a __u64 follows: ns of CLOCK_MONOTONIC; then the data */
#define RELAY_FAST_DISCARDED	0x2	/* discarded by the writer; skip */
#define RELAY_FAST_PADDING	0x4	/* the rest of the sub-buffer; skip */
#define RELAY_FAST_OPEN		0x8	/* being written; found only after a crash */

/**
 * struct relay_fast_record - the start of each record, 8 bytes aligned
 * @len: bytes of data, without this header, the time and the padding to 8 bytes
 * @type: defined by the client
 * @flags: RELAY_FAST_TIMED, ...
 */
struct relay_fast_record {
	__u32 len;
	__u16 type;
	__u16 flags;
};

/* Returns the number of bytes from the start of a record to the start of the next. */
static __inline__ __u64 relay_fast_record_size(const struct relay_fast_record *record)
{
	__u64 time = record->flags & RELAY_FAST_TIMED ? 8 : 0;

	return sizeof(*record) + time + (((__u64)record->len + 7) & ~7ULL);
}

#ifndef __KERNEL__

/* Returns the position of the next record, including those that are being written. */
static __inline__ __u64 relay_fast_produced(const struct relay_fast_ctl *ctl)
{
	return __atomic_load_n(&ctl->reserve, __ATOMIC_ACQUIRE) >> 5 << 3;
}

/*
 * Returns a position before which all records are complete. It may be less than an earlier result
 * while a record is being written.
 */
static __inline__ __u64 relay_fast_committed(const struct relay_fast_ctl *ctl)
{
	__u64 reserve = __atomic_load_n(&ctl->reserve, __ATOMIC_ACQUIRE);

	if (reserve & RELAY_FAST_IN_FLIGHT)
		return __atomic_load_n(&ctl->committed, __ATOMIC_ACQUIRE);
	return reserve >> RELAY_FAST_POSITION_SHIFT;
}

/* Returns the oldest position that has not been overwritten, the start of a sub-buffer or 0. */
static __inline__ __u64 relay_fast_kept(const struct relay_fast_ctl *ctl)
{
	__u64 in_subbuf = ctl->subbuf_size - 1, size = ctl->mask + 8, end;

	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	end = (relay_fast_produced(ctl) + in_subbuf) & ~in_subbuf;
	return end > size ? end - size : 0;
}

#endif /* !__KERNEL__ */

#endif /* _UAPI_LINUX_FERROTRACE_RELAY_H */
