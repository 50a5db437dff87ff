/* SPDX-License-Identifier: GPL-2.0 */
#ifndef DUMP_H
#define DUMP_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define __weak __attribute__((__weak__))

/*
 * A record is the file "memory", which the program writes: lines of text, and after each line that ends with a length
 * as many bytes.
 */
static inline int record_open(int flags)
{
	int to = open("memory", O_WRONLY | O_CREAT | flags, 0644);

	if (to < 0)
		abort();
	return to;
}

static inline void record_range(int to, const char *name, const void *start, size_t len)
{
	dprintf(to, "%s %#lx %zu\n", name, (unsigned long)start, len);
	if (write(to, start, len) != (ssize_t)len)
		abort();
}

/* The functions of GCC's runtime, by the linker's --wrap. */
void __real___gcov_init(void *info);
void __real___gcov_exit(void);
void __wrap___gcov_init(void *info);
void __wrap___gcov_exit(void);

/* Functions that a version of the runtime lacks are NULL. */
#define MERGE(name) void __weak __gcov_merge_##name(long *, unsigned int)
MERGE(add);
MERGE(ior);
MERGE(time_profile);
MERGE(single);
MERGE(icall_topn);
MERGE(topn);

/* Of the linker's: the data of the process. */
extern char __data_start[], _end[];

/* The functions of LLVM's. */
#define LLVM_GCDA(name, ...) \
	void __real_llvm_gcda_##name(__VA_ARGS__); \
	void __wrap_llvm_gcda_##name(__VA_ARGS__)
LLVM_GCDA(start_file, const char *name, unsigned int version, unsigned int checksum);
LLVM_GCDA(emit_function, unsigned int ident, unsigned int lines, unsigned int flow);
LLVM_GCDA(emit_arcs, unsigned int count, unsigned long *counters);

/* Source-based coverage. */
#define SECTION(name) extern char __weak __start___llvm_prf_##name[], __weak __stop___llvm_prf_##name[]
SECTION(data);
SECTION(cnts);
SECTION(bits);
SECTION(names);
extern unsigned long __llvm_profile_raw_version;

/* Newer runtimes were built with a newer libc, and only read a number of the environment with it. */
long __isoc23_strtol(const char *text, char **end, int base);

#endif
