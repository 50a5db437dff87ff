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

#endif /* _UAPI_LINUX_FERROTRACE_KPROBE_EVENTS_H */
