// SPDX-License-Identifier: GPL-2.0

/* The other object of the program, so that a process has more than one. */

#include "program.h"

int shared(int x)
{
	return x % 5 ? x + 1 : -x;
}

int other(int x)
{
	return x ? 1 : 2;
}
