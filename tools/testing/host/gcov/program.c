// SPDX-License-Identifier: GPL-2.0

/*
 * Program that compilers instrument for the tests of gcov/core: loops, conditions, values,
 * calls through pointers, a function that never runs.
 * It includes no header of the system, so that a compiler is enough. Arguments change the executed
 * code.
 */

#include "program.h"

static int twice(int x)
{
	return x * 2;
}

static int thrice(int x)
{
	return x * 3;
}

/* Not static, so that the compiler does not know its contents. */
int (*calls[2])(int) = { twice, thrice };

static noinline int sum(int n)
{
	int i, s = 0;

	for (i = 0; i < n; i++) {
		if (i % 3 == 0)
			s += i;
		else
			s += calls[i & 1](i) / n;
	}
	return s;
}

static noinline int decide(int a, int b, int c)
{
	if (a && (b || c > 3) && (a != 7 || !b))
		return 1;
	switch (c) {
	case 0:
		return 2;
	case 1:
	case 5:
		return 3;
	default:
		return 4;
	}
}

int never(int x)
{
	while (x > 3)
		x = x & 1 ? 3 * x + 1 : x / 2;
	return x;
}

int main(int argc, char **argv)
{
	int n = argc > 1 ? argv[1][0] - '0' : 5;
	int i, s = 0;

	for (i = 0; i < n * 10; i++)
		s += decide(i & 1, i & 2, i % 7) + shared(i);
	s += sum(n * 4);
	if (s < 0)
		return never(s);
	return 0;
}
