// SPDX-License-Identifier: GPL-2.0

/*
 * Records GCC's data in memory. Linked with --wrap=__gcov_init and --wrap=__gcov_exit: when GCC's
 * runtime has written its files, the data of the process are recorded.
 */

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

void __wrap___gcov_exit(void)
{
	int i, to;

	__real___gcov_exit();
	if (done++)
		return;
	to = record_open(O_TRUNC);
	for (i = 0; i < n_infos; i++) {
		/* The name of the file, which may be among constants. */
		const char *name = *(char **)((char *)infos[i] + 24);
		const char *end = name;

		while (*end++)
			;
		dprintf(to, "info %#lx\n", (unsigned long)infos[i]);
		record_range(to, "range", name, end - name);
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
	record_range(to, "range", __data_start, _end - __data_start);
	close(to);
}
