// SPDX-License-Identifier: GPL-2.0

/*
 * Records what the program's compiler put into memory, for tools/testing/host/src/gcov. Linked with --wrap=__gcov_init and
 * --wrap=__gcov_exit: when the compiler's runtime has written its files, the data of the process are written to the file
 * "memory": lines of text, and after each line "range" as many bytes as it says.
 */

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "dump.h"

#define MOST_INFOS 8

static void *infos[MOST_INFOS];
static int n_infos;
static int done;

long __isoc23_strtol(const char *text, char **end, int base)
{
	return strtol(text, end, base);
}

void __wrap___gcov_init(void *info)
{
	if (n_infos < MOST_INFOS)
		infos[n_infos++] = info;
	__real___gcov_init(info);
}

static void write_range(int to, const char *start, const char *end)
{
	dprintf(to, "range %#lx %lu\n", (unsigned long)start, (unsigned long)(end - start));
	if (write(to, start, end - start) != end - start)
		abort();
}

void __wrap___gcov_exit(void)
{
	int i, to;

	__real___gcov_exit();
	if (done++)
		return;
	to = open("memory", O_WRONLY | O_CREAT | O_TRUNC, 0644);
	if (to < 0)
		abort();
	for (i = 0; i < n_infos; i++) {
		/* The name of the file, which may be among constants. */
		const char *name = *(char **)((char *)infos[i] + 24);
		const char *end = name;

		while (*end++)
			;
		dprintf(to, "info %#lx\n", (unsigned long)infos[i]);
		write_range(to, name, end);
	}
#define SHOW(name) \
	do { \
		if (__gcov_merge_##name) \
			dprintf(to, "merge " #name " %#lx\n", (unsigned long)__gcov_merge_##name); \
	} while (0)
	SHOW(add);
	SHOW(ior);
	SHOW(time_profile);
	SHOW(single);
	SHOW(icall_topn);
	SHOW(topn);
	write_range(to, __data_start, _end);
	close(to);
}
