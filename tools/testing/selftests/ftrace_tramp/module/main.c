// SPDX-License-Identifier: GPL-2.0
/*
 * After each case the functions are as before.
 */
#include <linux/debugfs.h>
#include <linux/init.h>
#include <linux/module.h>
#include <linux/string.h>

#include "tramp_selftest.h"

static const struct test_case * const lists[] = { fts_bytes_cases, fts_one_cases, fts_several_cases, fts_sets_cases,
	fts_data_cases, fts_renew_cases, fts_leaving_cases, fts_storm_cases, NULL };

/* The functions, and their first bytes when they are not traced. */
static struct {
	const void *function;
	u8 code[16];
} plain[] = {
	{ fts_a }, { fts_b }, { fts_sum },
};

bool fts_is_plain(const void *function)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(plain); i++)
		if (plain[i].function == function)
			return !memcmp(function, plain[i].code, sizeof(plain[i].code));
	return false;
}

static void check_functions(const char *name)
{
	int i;

	/* their ops stay up to the next step */
	if (!strcmp(name, "renew.1_begin") || !strcmp(name, "leaving.1_begin") || !strcmp(name, "storm.1_begin") ||
	    !strcmp(name, "data.renew_1_begin") || !strcmp(name, "data.renew_2_same"))
		return;
	for (i = 0; i < ARRAY_SIZE(plain); i++)
		EXPECT(fts_is_plain(plain[i].function));
}

static const struct test_cases all = { .lists = lists, .after = check_functions };

static struct dentry *dir;

static int __init fts_init(void)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(plain); i++)
		memcpy(plain[i].code, plain[i].function, sizeof(plain[i].code));
	dir = cases_init(&all);
	fts_commands_init(dir);
	return 0;
}
module_init(fts_init);

static void __exit fts_exit(void)
{
	debugfs_remove(dir);
}
module_exit(fts_exit);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Tests of the trampolines of ftrace");
