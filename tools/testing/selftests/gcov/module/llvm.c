// SPDX-License-Identifier: GPL-2.0
/* Compiled by LLVM, for a kernel of any compiler. */
#include "llvm.h"

static __attribute__((noinline)) unsigned int odd(unsigned int number)
{
	return number * 3; /* ODD */
}

static __attribute__((noinline)) unsigned int even(unsigned int number)
{
	return number / 2; /* EVEN */
}

unsigned int gcov_llvm(unsigned int calls)
{
	unsigned int i, sum = 0;

	for (i = 0; i < calls; i++)
		sum += i % 2 ? odd(i) : even(i);
	return sum;
}
