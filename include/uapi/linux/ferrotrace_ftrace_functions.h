/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * Records of the module ferrotrace_ftrace_functions. Each call of a traced function writes a record
 * of type 0 with its time, to the fast relay channel ferrotrace_ftrace_functions/cpuN of debugfs
 * (<linux/ferrotrace_relay.h>).
 */
#ifndef _UAPI_LINUX_FERROTRACE_FTRACE_FUNCTIONS_H
#define _UAPI_LINUX_FERROTRACE_FTRACE_FUNCTIONS_H

#include <linux/types.h>

/**
 * struct ferrotrace_function_record - a call
 * @ip: the traced address of the function, as in available_filter_functions_addrs of tracefs
 * @duration: ns from its entry to its return; 0 if calls are only counted
 * @pid: the thread that calls it, or that was interrupted by the caller
 * @cpu: the CPU on which it was called, or has returned if it is timed
 */
struct ferrotrace_function_record {
	__u64 ip;
	__u64 duration;
	__s32 pid;
	__u32 cpu;
};

#endif /* _UAPI_LINUX_FERROTRACE_FTRACE_FUNCTIONS_H */
