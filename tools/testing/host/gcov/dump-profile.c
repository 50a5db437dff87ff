// SPDX-License-Identifier: GPL-2.0

/*
 * Records the sections that a profile is made of. LLVM's runtime writes it when the program exits; no counter changes
 * until then.
 */

#include "dump.h"

static void __attribute__((__destructor__)) dump(void)
{
	int to = record_open(O_TRUNC);

	dprintf(to, "version %#lx\n", __llvm_profile_raw_version);
#define SHOW(name) \
	record_range(to, "section " #name, __start___llvm_prf_##name, \
		     __stop___llvm_prf_##name - __start___llvm_prf_##name)
	SHOW(data);
	SHOW(cnts);
	SHOW(bits);
	SHOW(names);
	close(to);
}

long __isoc23_strtol(const char *text, char **end, int base)
{
	return strtol(text, end, base);
}
