// SPDX-License-Identifier: GPL-2.0
/* Traced functions. */
#include <linux/compiler.h>

#include "tramp_selftest.h"

noinline __noclone long fts_a(long x)
{
	barrier();
	return x;
}

noinline __noclone long fts_b(long x)
{
	barrier();
	return x;
}

noinline __noclone long fts_sum(long a, long b, long c, long d, long e, long f)
{
	barrier();
	return a + b + c + d + e + f;
}
