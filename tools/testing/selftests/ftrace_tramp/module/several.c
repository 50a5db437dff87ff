// SPDX-License-Identifier: GPL-2.0
/*
 * Several ftrace_ops on a function.
 */
#include <linux/string.h>

#include "tramp_selftest.h"

#define MOST 8

static struct ftrace_ops ops[MOST];
static unsigned int calls[MOST];

static void count(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op, struct ftrace_regs *fregs)
{
	calls[op - ops]++;
}

static bool come(unsigned int i)
{
	static const unsigned long flags[] = {
		FTRACE_OPS_FL_RECURSION, 0, FTRACE_OPS_FL_SAVE_REGS, FTRACE_OPS_FL_RECURSION | FTRACE_OPS_FL_RCU,
	};

	calls[i] = 0;
	ops[i] = (struct ftrace_ops){ .func = count, .flags = flags[i % ARRAY_SIZE(flags)] };
	return EXPECT_EQ(ftrace_set_filter_ip(&ops[i], (unsigned long)fts_a, 0, 0), 0) &&
	       EXPECT_EQ(register_ftrace_function(&ops[i]), 0);
}

static void go(unsigned int i)
{
	EXPECT_EQ(unregister_ftrace_function(&ops[i]), 0);
	ftrace_free_filter(&ops[i]);
}

/*
 * The ops are registered one by one, and unregistered in the same or the reverse order: each is
 * called once a call.
 */
static void come_and_go(bool first_goes_first)
{
	unsigned int i, j, passes[MOST] = { };

	for (i = 0; i < MOST; i++) {
		if (!come(i))
			break;
		EXPECT_EQ(fts_a(i), i);
		EXPECT_EQ(fts_b(i), i);
		for (j = 0; j <= i; j++)
			EXPECT_EQ(calls[j], ++passes[j]);
	}
	while (i) {
		unsigned int goes = first_goes_first ? MOST - i : i - 1;

		go(goes);
		i--;
		EXPECT_EQ(fts_a(i), i);
		for (j = 0; j < MOST; j++) {
			if (first_goes_first ? j > goes : j < goes)
				passes[j]++;
			EXPECT_EQ(calls[j], passes[j]);
		}
	}
}

static void last_goes_first(void)
{
	come_and_go(false);
}

static void first_goes_first(void)
{
	come_and_go(true);
}

const struct test_case fts_several_cases[] = {
	{ "several.last_goes_first", last_goes_first },
	{ "several.first_goes_first", first_goes_first },
	{ }
};
