// SPDX-License-Identifier: GPL-2.0
/* A part of gcov_one and of gcov_two. The test finds lines by the comments at their ends. */
#include <linux/compiler.h>
#include <linux/kstrtox.h>
#include <linux/moduleparam.h>

#include "same.h"

static noinline unsigned int odd(unsigned int number)
{
	return number * 3; /* ODD */
}

static noinline unsigned int even(unsigned int number)
{
	return number / 2; /* EVEN */
}

static noinline unsigned int never(unsigned int number)
{
	return number + 1; /* NEVER */
}

/* Without it the compiler drops the calls. */
static unsigned int result;

void same(unsigned int calls)
{
	unsigned int i, sum = 0;

	for (i = 0; i < calls; i++) {
		if (calls == ~0U)
			sum += never(i);
		else if (i % 2)
			sum += odd(i);
		else
			sum += even(i);
	}
	WRITE_ONCE(result, sum);
}

/* The parameter "run": makes so many calls. */
int same_run(const char *text, const struct kernel_param *param)
{
	unsigned int calls;
	int err = kstrtouint(text, 0, &calls);

	if (!err)
		same(calls);
	return err;
}
