/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * Records of the module ferrotrace_kprobe_events. Each hit of a probe writes a record with its time
 * to the fast relay channel ferrotrace_kprobe_events/cpuN of debugfs (<linux/ferrotrace_relay.h>).
 *
 * A record of type 0 is a struct ferrotrace_probe_record. A record of another type is from the
 * probe with that id, which has arguments. It has a struct ferrotrace_probe_hit; the arguments as
 * in the file "format"; and a __u32 with a bit for each argument that could not be read, the lowest
 * for the first. If stacks are among the arguments, __u64 addresses follow from the next multiple
 * of 8 to the end of the record: calls in the kernel, then calls in user space, which are in the
 * lower half, each with the innermost first.
 */
#ifndef _UAPI_LINUX_FERROTRACE_KPROBE_EVENTS_H
#define _UAPI_LINUX_FERROTRACE_KPROBE_EVENTS_H

#include <linux/types.h>

/* ferrotrace_probe_record.kind */
#define FERROTRACE_PROBE_POINT		0	/* before an instruction */
#define FERROTRACE_PROBE_RETURN		1	/* after a function's return; ax has the value */

#define FERROTRACE_PROBE_COMM_LEN	16

/**
 * struct ferrotrace_probe_hit - the start of each record
 * @cpu: the CPU
 * @pid: the thread
 * @comm: its name, padded with NULs
 * @probe: the probe's id, as in the file "probes"
 * @kind: FERROTRACE_PROBE_POINT, ...
 * @ip: the probed instruction; for a return, the return address
 * @duration: for a return, ns since the function was entered; else 0
 */
struct ferrotrace_probe_hit {
	__u32 cpu;
	__s32 pid;
	char comm[FERROTRACE_PROBE_COMM_LEN];
	__u32 probe;
	__u32 kind;
	__u64 ip;
	__u64 duration;
};

/**
 * struct ferrotrace_probe_record - a hit of a probe without arguments
 * @hit: the start of each record
 * @ax: this and the others are registers of the probed code
 */
struct ferrotrace_probe_record {
	struct ferrotrace_probe_hit hit;
	__u64 ax;
	__u64 bx;
	__u64 cx;
	__u64 dx;
	__u64 si;
	__u64 di;
	__u64 bp;
	__u64 sp;
	__u64 r8;
	__u64 r9;
	__u64 r10;
	__u64 r11;
	__u64 r12;
	__u64 r13;
	__u64 r14;
	__u64 r15;
	__u64 flags;
};

#define FERROTRACE_PROBE_TOTALS_VERSION	1

/**
 * struct ferrotrace_probe_totals - the start of the file "totals"
 * @version: FERROTRACE_PROBE_TOTALS_VERSION
 * @rows: number of rows that follow
 * @left_out: hits that were not added up, as the tables were full
 */
struct ferrotrace_probe_totals {
	__u32 version;
	__u32 rows;
	__u64 left_out;
};

/**
 * struct ferrotrace_probe_total - a row of the file "totals"
 * @cpu: the CPU; several rows may have one key, even on one CPU
 * @words: number of __u64 of the key
 * @classes: number of classes
 * @count: number of hits
 * @sum: sum of their times in ns, or of the magnitudes of their values
 * @carry: the upper word of this sum
 * @min: the least magnitude
 * @max: the longest time, or the greatest magnitude
 *
 * The key follows, then for each class of times a __u64 with its number and one with the number of
 * times. A key begins with a __u16 with its number of words, a __u16 with the probe's id and a
 * __u32 with a bit for each argument that could not be read, the lowest for the first. Then it has
 * the thread as a __u64, if the key has "pid"; the thread's name in two __u64, if it has "comm"; the
 * arguments, with their alignment, up to a multiple of 8; the class of the values as a __s64, if the
 * table has values; and the addresses of a stack. A value counts as the last argument for the bits.
 *
 * Class n of the first 16 has the number n. From there on, each power of two has 8 classes of the
 * same width. The class of a negative value is that of its magnitude, with a minus. In a table of
 * values without classes, it is -1, and the class of other values is 0.
 */
struct ferrotrace_probe_total {
	__u32 cpu;
	__u16 words;
	__u16 classes;
	__u64 count;
	__u64 sum;
	__u64 carry;
	__u64 min;
	__u64 max;
};

#endif /* _UAPI_LINUX_FERROTRACE_KPROBE_EVENTS_H */
