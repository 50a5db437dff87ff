/* SPDX-License-Identifier: GPL-2.0 */
#ifndef DUMP_H
#define DUMP_H

#define __weak __attribute__((__weak__))

/* The functions of the runtime, by the linker's --wrap. */
void __real___gcov_init(void *info);
void __real___gcov_exit(void);
void __wrap___gcov_init(void *info);
void __wrap___gcov_exit(void);

/* Those that a version of the runtime does not have are NULL. */
#define MERGE(name) void __weak __gcov_merge_##name(long *, unsigned int)
MERGE(add);
MERGE(ior);
MERGE(time_profile);
MERGE(single);
MERGE(icall_topn);
MERGE(topn);

/* Of the linker's: the data of the process. */
extern char __data_start[], _end[];

/* Newer runtimes were built with a newer libc, and only read a number of the environment with it. */
long __isoc23_strtol(const char *text, char **end, int base);

#endif
