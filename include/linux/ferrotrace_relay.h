/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Extensions of <linux/relay.h>: more functions for channels of relay_open(), and fast channels.
 * Records of fast channels are written in place, from any context, without turning interrupts off.
 *
 * <uapi/linux/ferrotrace_relay.h> describes the readers' view. Documentation/fast-relay.rst
 * compares fast channels with those of <linux/relay.h>.
 */
#ifndef _LINUX_FERROTRACE_RELAY_H
#define _LINUX_FERROTRACE_RELAY_H

#include <linux/align.h>
#include <linux/compiler.h>
#include <linux/init.h>
#include <linux/percpu.h>
#include <linux/preempt.h>
#include <linux/relay.h>
#include <linux/string.h>
#include <linux/types.h>
#include <uapi/linux/ferrotrace_relay.h>

struct dentry;
struct module;

/**
 * relay_try_write() - write a record and report success
 * @chan: the channel, or NULL
 * @data: the record
 * @length: its length in bytes, of any value
 *
 * Unlike relay_write(), which is compiled into its caller, this function
 *
 * - serialises the writers of a global channel, which need no lock of their own;
 * - shows a record to readers only when it is complete;
 * - takes any @length: a record that does not fit in a sub-buffer is refused.
 *
 * Code that writes to a global channel with relay_write() or relay_reserve() at the same time still
 * needs a lock against both. Moreover, relay_write() and relay_reserve() leave no sign that a
 * record is in progress. Code that can interrupt them, in an NMI or in a probe on their code, must
 * not write to their channel, but to one that is written with this function alone.
 *
 * Context: Any, also within a write to the same channel: in an NMI, or in a probe on any
 *	function that writing calls. Interrupts are off while the record is copied. The record is
 *	lost, and counted, if this CPU is in the middle of another one of the same buffer, or if
 *	another CPU is and must not be waited for, as in an NMI and within a write to any
 *	channel. The client's subbuf_start() is called in the writer's context with the buffer
 *	locked. A handler of a kprobe with a breakpoint counts as an NMI: it does not wait for
 *	another CPU's write to a global channel.
 *
 * Return: true if the record was written.
 */
bool relay_try_write(struct rchan *chan, const void *data, size_t length);

/**
 * relay_try_write_lost() - number of records that relay_try_write() has lost
 * @chan: the channel, or NULL
 *
 * This includes records of relay_write() and its relatives that needed the next sub-buffer in the
 * middle of a switch, a flush or a relay_try_write() of their buffer.
 *
 * Context: Any, while the channel is open.
 * Return: the number of records lost for any reason on all CPUs since the channel was opened
 *	or reset.
 */
u64 relay_try_write_lost(struct rchan *chan);

/**
 * relay_prev_padding() - the padding of the sub-buffer that has just ended
 * @buf: the buffer, in the client's subbuf_start()
 * @prev_subbuf: as passed to subbuf_start()
 *
 * Returns the former fourth parameter of subbuf_start().
 *
 * Context: subbuf_start().
 * Return: the unused bytes at the end of @prev_subbuf; 0 if it is NULL.
 */
static inline size_t relay_prev_padding(const struct rchan_buf *buf, const void *prev_subbuf)
{
	return prev_subbuf ? buf->padding[(prev_subbuf - buf->start) / buf->chan->subbuf_size] : 0;
}

/**
 * relay_late_setup_files() - give files to a channel that was opened without a name
 * @chan: the channel
 * @base_filename: name of the files, to which the number of the CPU is added
 * @parent: directory for them, or NULL for the root of the client's file system
 *
 * A channel that relay_open() opened with a NULL name has no files, so that it can be used before a
 * file system is ready. This calls the client's create_buf_file() for all buffers; CPUs that are
 * brought up later get their file then. The files include the data written so far, also in their
 * size.
 *
 * Context: Process; sleeps. Not from a CPU hotplug callback. A global channel must not be
 *	written at the same time, or the size of its file may be too small.
 * Return: 0, or -EINVAL without a channel, a name, or a file where create_buf_file() should
 *	make one, -EEXIST if the channel has a name, -ENOMEM, or the error of create_buf_file().
 *	After an error the channel is as before.
 */
int relay_late_setup_files(struct rchan *chan, const char *base_filename, struct dentry *parent);

/* Largest number of data bytes in a record. */
#define RELAY_FAST_MAX_DATA	(1UL << 30)

/**
 * struct relay_fast - a fast channel
 * @ctl: control page of each CPU's buffer; the data is RELAY_FAST_DATA bytes after it. The
 *	rest of the structure is private to the engine.
 */
struct relay_fast {
	struct relay_fast_ctl * __percpu *ctl;
};

/**
 * struct relay_fast_slot - a record being written
 * @ctl: control page of the buffer
 * @record: the record's header
 * @data: place of the data, @record->len bytes
 */
struct relay_fast_slot {
	struct relay_fast_ctl *ctl;
	struct relay_fast_record *record;
	void *data;
};

/* Implements relay_fast_open() in the engine. */
struct relay_fast *__relay_fast_open(struct module *owner, const char *base_filename, struct dentry *parent,
				     size_t subbuf_size, size_t n_subbufs, unsigned int flags,
				     const char *format, const char *reserved);

/**
 * relay_fast_open() - open a channel with a buffer for each CPU
 * @base_filename: name of the files, to which the number of the CPU is added; DIR/NAME to
 *	put them into a directory of their own in the root of debugfs, which is removed with the
 *	channel. In UTF-8, not empty
 * @parent: directory of debugfs for them, or NULL for its root
 * @subbuf_size: bytes of a sub-buffer, a power of two of at least 64
 * @n_subbufs: sub-buffers of a CPU, a power of two of at least 2
 * @flags: RELAY_FAST_OVERWRITE or 0
 * @format: text that describes the records by their type, for the file DIR/format, or
 *	NAME.format without DIR; or NULL
 *
 * Until the kernel starts user space, all possible CPUs get a buffer, and the files appear when
 * debugfs is ready. Afterwards the online CPUs get one, and others when they are first brought up.
 *
 * A channel that its module has not closed is closed when the module is unloaded.
 *
 * Context: Process, from early_initcall() on. Sleeps. Not from a CPU hotplug callback.
 * Return: The channel, or an ERR_PTR: -EINVAL for invalid names, sizes or flags,
 *	-ENAMETOOLONG, -ENOMEM, -EINTR if the task is being killed, -EEXIST if the directory or a
 *	file already exists, -ENODEV or -EPERM without debugfs, -ENOENT if @parent has been
 *	removed. Nothing is left behind then.
 */
static inline struct relay_fast *relay_fast_open(const char *base_filename, struct dentry *parent,
						 size_t subbuf_size, size_t n_subbufs, unsigned int flags,
						 const char *format)
{
	return __relay_fast_open(THIS_MODULE, base_filename, parent, subbuf_size, n_subbufs, flags, format, NULL);
}

/**
 * relay_fast_open_reserved() - open a channel in memory that survives a reboot
 * @base_filename: as for relay_fast_open()
 * @parent: as for relay_fast_open()
 * @subbuf_size: as for relay_fast_open()
 * @n_subbufs: as for relay_fast_open(), or 0 for as many as fit
 * @flags: as for relay_fast_open()
 * @format: as for relay_fast_open()
 * @reserved: the name of the memory: the kernel's command line has
 *	reserve_mem=SIZE:4096:NAME
 *
 * Half of the memory is for the channel. The data of the last boot stay in the other half:
 * "ferrotrace recover NAME" reads them. A record costs the same as in any fast channel.
 *
 * Context: As for relay_fast_open().
 * Return: As for relay_fast_open(), and -ENXIO without such memory, -EAGAIN while another
 *	channel or readers of an earlier one use it, -ENOSPC if it is too small.
 */
static inline struct relay_fast *relay_fast_open_reserved(const char *base_filename, struct dentry *parent,
							  size_t subbuf_size, size_t n_subbufs,
							  unsigned int flags, const char *format,
							  const char *reserved)
{
	return __relay_fast_open(THIS_MODULE, base_filename, parent, subbuf_size, n_subbufs, flags, format,
				 reserved);
}

/**
 * relay_fast_close() - close a channel
 * @chan: the channel, which must no longer be written, NULL or an ERR_PTR
 *
 * Removes the files. A reader with an open file or a mapping keeps the buffer, is woken, and may
 * read the remaining data.
 *
 * Context: Process. Sleeps.
 */
void relay_fast_close(struct relay_fast *chan);

/**
 * relay_fast_lost() - number of lost records
 * @chan: the channel
 *
 * Context: Any.
 * Return: The number over all CPUs since the channel was opened.
 */
u64 relay_fast_lost(const struct relay_fast *chan);

/*
 * Reserves a record in the engine, when the inline function has reached the limit. Called with
 * preemption off. Writes the time after the place of the header, if @timed.
 */
struct relay_fast_record *relay_fast_reserve_slow(struct relay_fast *chan, u64 bytes, bool timed);
u64 relay_fast_time(void);

/*
 * Set in relay_fast_ctl.reserve while 16 or more records are open: the engine decides on each, and
 * refuses the 25th.
 */
#define RELAY_FAST_CROWDED	0x10

/* x86: a single instruction is atomic against all interruptions on its CPU. */
static __always_inline bool relay_fast_exchange(u64 *word, u64 *old, u64 new)
{
	bool done;

	asm volatile("cmpxchgq %[new], %[word]"
		     : "=@ccz" (done), [word] "+m" (*word), "+a" (*old)
		     : [new] "r" (new)
		     : "memory");
	return done;
}

static __always_inline u64 relay_fast_header(size_t len, u16 type, u16 flags)
{
	return (u64)flags << 48 | (u64)type << 32 | (u32)len;
}

/*
 * Reserves a record, writes its header, and leaves preemption off. Returns false, with preemption
 * as before, if the record is lost.
 */
static __always_inline bool __relay_fast_reserve(struct relay_fast *chan, struct relay_fast_slot *slot,
						 u16 type, size_t len, u16 flags)
{
	u64 bytes = sizeof(struct relay_fast_record) + ALIGN(len, 8);
	bool timed = flags & RELAY_FAST_TIMED;
	struct relay_fast_ctl *ctl;
	u64 old, new, time = 0;
	u64 *record;

	if (timed)
		bytes += sizeof(time);
	/* Too long for any sub-buffer: do not let the position overflow. */
	if (len > RELAY_FAST_MAX_DATA)
		bytes = 2 * RELAY_FAST_MAX_DATA;

	preempt_disable_notrace();
	ctl = raw_cpu_read(*chan->ctl);
	old = READ_ONCE(ctl->reserve);
	do {
		if (timed)
			time = relay_fast_time();
		new = old + (bytes << RELAY_FAST_POSITION_SHIFT) + 1;
		/*
		 * A plain load, which becomes an operand of the comparison. The next reserve finds
		 * a change that this one misses.
		 */
		if (unlikely(new > data_race(ctl->limit) || (old & RELAY_FAST_CROWDED)))
			goto slow;
	} while (unlikely(!relay_fast_exchange(&ctl->reserve, &old, new)));
	/* The mask removes the count of records in flight, too. */
	record = (void *)ctl + RELAY_FAST_DATA + ((old >> RELAY_FAST_POSITION_SHIFT) & ctl->mask);
	if (timed)
		record[1] = time;
reserved:
	/*
	 * Mark the record as open: if the kernel dies before the data are written, recovery finds
	 * the end of the record.
	 */
	WRITE_ONCE(*record, relay_fast_header(len, type, flags | RELAY_FAST_OPEN));
	barrier();
	slot->ctl = ctl;
	slot->record = (struct relay_fast_record *)record;
	slot->data = record + (timed ? 2 : 1);
	return true;
slow:
	record = (u64 *)relay_fast_reserve_slow(chan, bytes, timed);
	/* The CPU may have got its buffer since. */
	ctl = raw_cpu_read(*chan->ctl);
	if (record)
		goto reserved;
	preempt_enable_notrace();
	return false;
}

/*
 * Copies data. memcpy() with a length known only at run time is optimized for long data, but most
 * records are short. Those are copied in two pieces, which may overlap; the second ends where the
 * data ends.
 */
static __always_inline void relay_fast_copy(void *to, const void *from, size_t len)
{
	if (__builtin_constant_p(len) || len > 64) {
		memcpy(to, from, len);
	} else if (len > 32) {
		__builtin_memcpy(to, from, 32);
		__builtin_memcpy(to + len - 32, from + len - 32, 32);
	} else if (len >= 16) {
		__builtin_memcpy(to, from, 16);
		__builtin_memcpy(to + len - 16, from + len - 16, 16);
	} else if (len >= 8) {
		__builtin_memcpy(to, from, 8);
		__builtin_memcpy(to + len - 8, from + len - 8, 8);
	} else {
		memcpy(to, from, len);
	}
}

/**
 * relay_fast_reserve() - begin a record on this CPU
 * @chan: an open channel
 * @slot: is filled in
 * @type: type of the record, for the reader
 * @len: bytes of data
 *
 * When it returns true, preemption is off, @slot->data may be written, and relay_fast_commit() or
 * relay_fast_discard() has to follow, soon and on this CPU: until then readers see neither the
 * record nor later ones. Other records may be written before that: a CPU may have 24 open at once;
 * more are refused. The caller must not sleep before it commits or discards.
 *
 * Context: Any, NMI included.
 * Return: true if there is room; if not, the loss has been counted.
 */
static __always_inline bool relay_fast_reserve(struct relay_fast *chan, struct relay_fast_slot *slot,
					       u16 type, size_t len)
{
	return __relay_fast_reserve(chan, slot, type, len, 0);
}

/**
 * relay_fast_reserve_timed() - begin a record with a time stamp
 * @chan: as for relay_fast_reserve()
 * @slot: as for relay_fast_reserve()
 * @type: as for relay_fast_reserve()
 * @len: as for relay_fast_reserve()
 *
 * The time is CLOCK_MONOTONIC, in nanoseconds, from ktime_get_mono_fast_ns(). The records of a CPU
 * are in the order of their times, except around an NMI that hits while that clock is being
 * updated.
 *
 * Context: Any, NMI included.
 * Return: As relay_fast_reserve().
 */
static __always_inline bool relay_fast_reserve_timed(struct relay_fast *chan, struct relay_fast_slot *slot,
						     u16 type, size_t len)
{
	return __relay_fast_reserve(chan, slot, type, len, RELAY_FAST_TIMED);
}

/* Shows a record whose header is final. */
static __always_inline void __relay_fast_commit(struct relay_fast_slot *slot)
{
	asm volatile("decq %0" : "+m" (slot->ctl->reserve) : : "memory");
	preempt_enable_notrace();
}

/**
 * relay_fast_commit() - show a record to readers
 * @slot: the record
 */
static __always_inline void relay_fast_commit(struct relay_fast_slot *slot)
{
	/* After the data. */
	barrier();
	WRITE_ONCE(slot->record->flags, slot->record->flags & ~RELAY_FAST_OPEN);
	__relay_fast_commit(slot);
}

/**
 * relay_fast_discard() - discard a record; readers skip it
 * @slot: the record
 */
static __always_inline void relay_fast_discard(struct relay_fast_slot *slot)
{
	slot->record->flags |= RELAY_FAST_DISCARDED;
	relay_fast_commit(slot);
}

/**
 * relay_fast_write() - write a record on this CPU
 * @chan: an open channel
 * @type: type of the record, for the reader
 * @data: its data
 * @len: bytes of data
 *
 * Context: Any, NMI included.
 * Return: true if it was written; if not, the loss has been counted.
 */
static __always_inline bool relay_fast_write(struct relay_fast *chan, u16 type, const void *data, size_t len)
{
	struct relay_fast_slot slot __uninitialized;

	if (!relay_fast_reserve(chan, &slot, type, len))
		return false;
	relay_fast_copy(slot.data, data, len);
	barrier();
	WRITE_ONCE(slot.record->flags, 0);
	__relay_fast_commit(&slot);
	return true;
}

/**
 * relay_fast_write_timed() - write a record with a time stamp on this CPU
 * @chan: as for relay_fast_write()
 * @type: as for relay_fast_write()
 * @data: as for relay_fast_write()
 * @len: as for relay_fast_write()
 *
 * Context: Any, NMI included.
 * Return: As relay_fast_write().
 */
static __always_inline bool relay_fast_write_timed(struct relay_fast *chan, u16 type, const void *data,
						   size_t len)
{
	struct relay_fast_slot slot __uninitialized;

	if (!relay_fast_reserve_timed(chan, &slot, type, len))
		return false;
	relay_fast_copy(slot.data, data, len);
	barrier();
	WRITE_ONCE(slot.record->flags, RELAY_FAST_TIMED);
	__relay_fast_commit(&slot);
	return true;
}

#endif /* _LINUX_FERROTRACE_RELAY_H */
