/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * What the module ferrotrace_kprobe_events writes for each hit of a probe. The records of a CPU are in the relay file
 * ferrotrace_kprobe_events/cpuN of debugfs, back to back and without padding: a sub-buffer holds a whole number of them.
 */
#ifndef _UAPI_LINUX_FERROTRACE_KPROBE_EVENTS_H
#define _UAPI_LINUX_FERROTRACE_KPROBE_EVENTS_H

#include <linux/types.h>

/* ferrotrace_probe_record.kind */
#define FERROTRACE_PROBE_POINT		0	/* before an instruction */
#define FERROTRACE_PROBE_RETURN		1	/* after the return of a function, whose value is in ax */

#define FERROTRACE_PROBE_COMM_LEN	16

/**
 * struct ferrotrace_probe_record - a hit
 * @time: ns of CLOCK_MONOTONIC
 * @cpu: the CPU
 * @pid: the thread
 * @comm: its name, padded with NULs
 * @probe: the probe's id, as in the file "probes"
 * @kind: FERROTRACE_PROBE_POINT, ...
 * @ip: the probed instruction; for a return, the address that is returned to
 * @duration: for a return, ns since the function was entered; else 0
 * @ax: this and the others are registers of the probed code
 */
struct ferrotrace_probe_record {
	__u64 time;
	__u32 cpu;
	__s32 pid;
	char comm[FERROTRACE_PROBE_COMM_LEN];
	__u32 probe;
	__u32 kind;
	__u64 ip;
	__u64 duration;
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
