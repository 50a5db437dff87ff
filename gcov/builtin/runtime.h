/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Functions of the compilers' runtimes, which no header declares, and the start of a GCC object,
 * which is the same in all versions.
 */
#ifndef _FERROTRACE_GCOV_RUNTIME_H
#define _FERROTRACE_GCOV_RUNTIME_H

#include <linux/types.h>

struct gcov_info {
	unsigned int version;
	struct gcov_info *next;
};

#ifdef CONFIG_CC_IS_GCC
/*
 * Upper half of the version, which determines the rest of the layout: a letter and a digit, "B2"
 * for 12.
 */
#define GCOV_OWN_VERSION ((('A' + __GNUC__ / 10) << 8) | ('0' + __GNUC__ % 10))
#else
#define GCOV_OWN_VERSION 0
#endif

void __gcov_init(struct gcov_info *info);
void __gcov_flush(void);
void __gcov_exit(void);
void __gcov_merge_add(long *counters, unsigned int count);
void __gcov_merge_single(long *counters, unsigned int count);
void __gcov_merge_delta(long *counters, unsigned int count);
void __gcov_merge_ior(long *counters, unsigned int count);
void __gcov_merge_time_profile(long *counters, unsigned int count);
void __gcov_merge_icall_topn(long *counters, unsigned int count);
void __gcov_merge_topn(long *counters, unsigned int count);

void llvm_gcov_init(void (*writeout)(void), void (*flush)(void));
void llvm_gcda_start_file(const char *filename, u32 version, u32 checksum);
void llvm_gcda_emit_function(u32 ident, u32 func_checksum, u32 cfg_checksum);
void llvm_gcda_emit_arcs(u32 num_counters, u64 *counters);
void llvm_gcda_summary_info(void);
void llvm_gcda_end_file(void);

#endif /* _FERROTRACE_GCOV_RUNTIME_H */
