/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Cases that run in a module, driven through debugfs MODULE/: "cases" names them, "run" runs the one that is written and then
 * reads its result: "ok", "failed" or "skipped", and a line for each thing that was said.
 */
#ifndef _SELFTEST_CASES_H
#define _SELFTEST_CASES_H

#include <linux/compiler.h>
#include <linux/mutex.h>
#include <linux/types.h>

struct dentry;
struct seq_file;

struct test_case {
	const char *name;
	void (*run)(void);
};

/* Cases of a module. All but the lists may be NULL. */
struct test_cases {
	/* up to a NULL; each list up to one without a name */
	const struct test_case * const *lists;
	/*
	 * cases by other rules: prints their names, a line each; and runs @name, or returns false
	 * if it is none of them
	 */
	void (*show_others)(struct seq_file *m);
	bool (*run_other)(const char *name);
	/* after each case */
	void (*after)(const char *name);
};

/* Makes the directory, which the module removes. */
struct dentry *cases_init(const struct test_cases *cases);
/* Milliseconds that a case under load takes: the parameter "ms". */
extern unsigned int case_ms;
/* Held while a case runs. */
extern struct mutex cases_lock;

/* The result of the case that runs. */
void case_fail(const char *file, int line, const char *what, long a, long b);
void case_say(const char *fmt, ...) __printf(1, 2);
void case_skip(const char *why);

#define EXPECT(cond)							\
	({								\
		bool __ok = (cond);					\
									\
		if (!__ok)						\
			case_fail(__FILE__, __LINE__, #cond, 0, 0);	\
		__ok;							\
	})

#define EXPECT_EQ(x, y)								\
	({									\
		long __x = (long)(x), __y = (long)(y);				\
										\
		if (__x != __y)							\
			case_fail(__FILE__, __LINE__, #x " == " #y, __x, __y);	\
		__x == __y;							\
	})

#endif
