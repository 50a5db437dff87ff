// SPDX-License-Identifier: GPL-2.0
/*
 * Objects as a compiler makes them, of any version, right or wrong: the constructor is called as
 * the parameters say.
 */
#include <linux/delay.h>
#include <linux/err.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/string.h>

#include "fake.h"

enum { OBJECTS = 2, FUNCTIONS = 3, MOST_COUNTERS = 1 << 18 };

static char name[1024] = "/gcov_fake/fake.gcda";
module_param_string(name, name, sizeof(name), 0);
MODULE_PARM_DESC(name, "what the file is called");

static unsigned int version = 0x4232322a;
module_param(version, uint, 0);
MODULE_PARM_DESC(version, "of the compiler: 0x4232322a is B22*");

static unsigned int objects = 1;
module_param(objects, uint, 0);
MODULE_PARM_DESC(objects, "how many, all of one name");

static unsigned int counts = 4;
module_param(counts, uint, 0);
MODULE_PARM_DESC(counts, "counters of the last function");

static bool other_kinds;
module_param(other_kinds, bool, 0);
MODULE_PARM_DESC(other_kinds, "counters of bits and of times, too");

static char *wrong = "";
module_param(wrong, charp, 0);
MODULE_PARM_DESC(wrong, "what is not as it should be");

static bool grow;
module_param(grow, bool, 0);
MODULE_PARM_DESC(grow, "all counters grow, one after the other");

static u64 infos[OBJECTS][20];
static u64 functions[OBJECTS][FUNCTIONS][24];
static u64 *tables[OBJECTS][FUNCTIONS];
static u64 arcs[OBJECTS][FUNCTIONS][4];
static u64 many[MOST_COUNTERS];
static u64 bits[OBJECTS], times[OBJECTS];
static const u64 constants[4] = { 1, 2, 3, 4 };

static unsigned int major(void)
{
	return ((version >> 24) - 'A') * 10 + ((version >> 16) & 0xff) - '0';
}

static unsigned int kinds(void)
{
	unsigned int gcc = major();

	return gcc >= 15 ? 10 : gcc == 14 || gcc < 10 ? 9 : 8;
}

static bool is_wrong(const char *what)
{
	return !strcmp(wrong, what);
}

static void set(u64 *at, u32 count, u64 *values)
{
	at[0] = count;
	at[1] = (unsigned long)values;
}

static void build_function(unsigned int object, unsigned int function)
{
	u64 *to = functions[object][function];
	u64 *values = arcs[object][function];
	u32 count = 4;

	if (function == FUNCTIONS - 1 && counts > 4) {
		values = many;
		count = counts;
	}
	to[0] = (unsigned long)infos[object];
	to[1] = (function + 1) | (u64)(0x1000 + function) << 32;
	to[2] = 0x2000 + function;
	set(to + 3, count, values);
	/* bits and times are last in all versions that have no other */
	if (other_kinds) {
		set(to + 5, function ? 0 : 1, &bits[object]);
		set(to + 7, function ? 0 : 1, &times[object]);
	}
	if (function == 0) {
		values[0] = 10 + object;
		values[1] = 20;
		values[3] = 1ULL << 40;
	}
	if (function == 1 && is_wrong("counters"))
		to[4] = (unsigned long)&jiffies;
	if (function == 1 && is_wrong("readonly"))
		to[4] = (unsigned long)constants;
	if (function == 1 && is_wrong("count"))
		to[3] = 0x40000000;
	if (function == 1 && is_wrong("key"))
		to[0] = 0x1234567;
	/* another object has the function: the linker does this with several copies of it */
	if (function == 1 && is_wrong("other"))
		to[0] = (unsigned long)infos[!object];
	tables[object][function] = function == 1 && is_wrong("null") ? NULL : to;
}

static void build(unsigned int object)
{
	u64 *info = infos[object];
	unsigned int n = kinds(), i;

	for (i = 0; i < FUNCTIONS; i++)
		build_function(object, i);
	bits[object] = object ? 3 : 5;
	times[object] = object ? 7 : 9;

	info[0] = version;
	info[2] = 0x5eed | (major() >= 12 ? 0xabcdULL << 32 : 0);
	if (is_wrong("stamp"))
		info[2] += object;
	info[3] = is_wrong("name") ? 8 : (unsigned long)name;
	info[4] = (unsigned long)__gcov_merge_add;
	if (other_kinds) {
		info[4 + 6] = (unsigned long)__gcov_merge_ior;
		info[4 + 7] = (unsigned long)__gcov_merge_time_profile;
	}
	if (is_wrong("merge"))
		info[5] = (unsigned long)_printk;
	info[4 + n] = is_wrong("functions") ? 0xffffffff : FUNCTIONS;
	info[5 + n] = is_wrong("table") ? (unsigned long)&jiffies : (unsigned long)tables[object];
}

static struct task_struct *growing;

/* Each has been counted as often as the one before it, or once less. */
static int growth(void *unused)
{
	unsigned int i;

	while (!kthread_should_stop()) {
		for (i = 0; i < counts; i++)
			WRITE_ONCE(many[i], many[i] + 1);
		cond_resched();
	}
	return 0;
}

static int __init fake_init(void)
{
	unsigned int i;

	if (objects > OBJECTS || counts > MOST_COUNTERS)
		return -EINVAL;
	for (i = 0; i < OBJECTS; i++)
		build(i);
	for (i = 0; i < objects; i++)
		__gcov_init((struct gcov_info *)infos[i]);
	if (grow) {
		growing = kthread_run(growth, NULL, "gcov_fake");
		return PTR_ERR_OR_ZERO(growing);
	}
	return 0;
}
module_init(fake_init);

static void __exit fake_exit(void)
{
	if (growing)
		kthread_stop(growing);
}
module_exit(fake_exit);

MODULE_DESCRIPTION("Objects as a compiler makes them, for the selftests of gcov");
MODULE_LICENSE("GPL");
