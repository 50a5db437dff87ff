// SPDX-License-Identifier: GPL-2.0

/*
 * Records the calls of LLVM's code to the runtime. Linked with --wrap for each of these functions:
 * records their arguments, and the counters after the call.
 */

#include "dump.h"

void __wrap_llvm_gcda_start_file(const char *name, unsigned int version, unsigned int checksum)
{
	int to = record_open(O_APPEND);

	dprintf(to, "start %#x %#x %s\n", version, checksum, name);
	close(to);
	__real_llvm_gcda_start_file(name, version, checksum);
}

void __wrap_llvm_gcda_emit_function(unsigned int ident, unsigned int lines, unsigned int flow)
{
	int to = record_open(O_APPEND);

	dprintf(to, "function %#x %#x %#x\n", ident, lines, flow);
	close(to);
	__real_llvm_gcda_emit_function(ident, lines, flow);
}

void __wrap_llvm_gcda_emit_arcs(unsigned int count, unsigned long *counters)
{
	int to = record_open(O_APPEND);

	__real_llvm_gcda_emit_arcs(count, counters);
	dprintf(to, "arcs %#lx %u\n", (unsigned long)counters, count);
	record_range(to, "range", counters, count * sizeof(*counters));
	close(to);
}

long __isoc23_strtol(const char *text, char **end, int base)
{
	return strtol(text, end, base);
}
