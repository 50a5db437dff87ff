// SPDX-License-Identifier: GPL-2.0
/*
 * Measures ftrace_ops when it is loaded. Prints a line "ftrace_bench: OPERATION INSTRUCTIONS" for
 * each figure: the best of some rounds. In a guest that counts instructions as nanoseconds the
 * figures repeat.
 *
 * Loading fails with -EAGAIN on success; but not with hold=1, which leaves many ops registered.
 */
#include <linux/ferrotrace_ftrace.h>
#include <linux/ftrace.h>
#include <linux/math.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/vmalloc.h>

#include "functions.h"
#include "measure.h"

#define MANY 1000
#define OTHERS 200

static unsigned int rounds = 5;
module_param(rounds, uint, 0);
MODULE_PARM_DESC(rounds, "How often each call is measured; the best counts");

static bool registering;
module_param(registering, bool, 0);
MODULE_PARM_DESC(registering, "Whether registering is measured");

static bool hold;
module_param(hold, bool, 0);
MODULE_PARM_DESC(hold, "Registers many ops and stays");

static char *functions;
module_param(functions, charp, 0);
MODULE_PARM_DESC(functions, "A file with the addresses of functions that get data of their own, one a line");

static noinline __noclone long traced(long x)
{
	barrier();
	return x;
}

static noinline __noclone long traced_too(long x)
{
	barrier();
	return x;
}

static notrace void nothing(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op, struct ftrace_regs *fregs)
{
}

static notrace void nothing_with(unsigned long ip, unsigned long parent_ip, void *data, struct ftrace_regs *fregs)
{
}

static struct ftrace_data_ops data_ops = { .func = nothing_with };
static struct ftrace_ops ops[MANY];
static struct ftrace_ops *list[MANY];

static void print(const char *name, u64 time, unsigned int count)
{
	u64 thousandths = DIV_ROUND_CLOSEST_ULL(time * 1000, count);

	pr_info("ftrace_bench: %s %llu.%03llu\n", name, thousandths / 1000, thousandths % 1000);
}

static u64 best(void)
{
	return measure_calls(traced, rounds);
}

/* Ops for a function, which are not registered yet. */
static int set_up(struct ftrace_ops *first, unsigned int count, const void *function, unsigned long flags)
{
	unsigned int i;
	int err;

	for (i = 0; i < count; i++) {
		first[i] = (struct ftrace_ops){ .func = nothing, .flags = flags };
		err = ftrace_set_filter_ip(&first[i], (unsigned long)function, 0, 0);
		if (err)
			return err;
	}
	return 0;
}

static void forget(struct ftrace_ops *first, unsigned int count)
{
	while (count--)
		ftrace_free_filter(&first[count]);
}

/*
 * Measures calls with several ops on the function. @first has another ops, with flags of its own.
 */
static int calls(const char *name, unsigned int count, unsigned long flags, unsigned long first)
{
	u64 plain = best(), time;
	int err;

	err = set_up(ops, count, traced, flags);
	if (err)
		return err;
	ops[0].flags |= first;
	err = register_ftrace_functions(list, count);
	if (err)
		return err;
	time = best();
	print(name, time - min(plain, time), MEASURE_LOOPS);
	err = unregister_ftrace_functions(list, count);
	forget(ops, count);
	return err;
}

static int all_calls(const char *suffix)
{
	static const struct {
		const char *name;
		unsigned int count;
		unsigned long flags, first;
	} what[] = {
		{ "ops_1", 1 },
		{ "ops_1_regs", 1, FTRACE_OPS_FL_SAVE_REGS },
		{ "ops_1_recursion", 1, FTRACE_OPS_FL_RECURSION },
		{ "ops_2", 2 },
		{ "ops_4", 4 },
		{ "ops_8", 8 },
		{ "ops_2_regs", 2, 0, FTRACE_OPS_FL_SAVE_REGS },
	};
	char name[32];
	unsigned int i;
	int err = 0;

	for (i = 0; i < ARRAY_SIZE(what) && !err; i++) {
		snprintf(name, sizeof(name), "%s%s", what[i].name, suffix);
		err = calls(name, what[i].count, what[i].flags, what[i].first);
	}
	return err;
}

static int with_others(void)
{
	struct ftrace_ops *others = ops + MANY - OTHERS;
	int err;

	err = set_up(others, OTHERS, traced_too, 0);
	if (!err)
		err = register_ftrace_functions(list + MANY - OTHERS, OTHERS);
	if (err)
		return err;
	err = all_calls("_of_200");
	unregister_ftrace_functions(list + MANY - OTHERS, OTHERS);
	forget(others, OTHERS);
	return err;
}

/* Measures the data of the function, and the cost next to an ops that is the same for all. */
static int calls_with_data(void)
{
	unsigned long ip = (unsigned long)traced;
	struct ftrace_data data = { .ip = ip, .data = &data_ops };
	u64 plain = best(), with_ops, with_data;
	int err;

	err = set_up(ops, 1, traced, 0);
	err = err ?: register_ftrace_function(&ops[0]);
	if (err)
		return err;
	with_ops = best() - plain;
	unregister_ftrace_function(&ops[0]);
	forget(ops, 1);
	err = ftrace_data_attach(&data_ops, &data, 1);
	if (err)
		return err;
	with_data = best() - plain;
	print("data_1", with_data, MEASURE_LOOPS);
	print("data_more", with_data - min(with_ops, with_data), MEASURE_LOOPS);
	ftrace_data_release(&data_ops);
	return 0;
}

#define TIMED(name, call) TIMED_EACH(name, call, MANY)

#define TIMED_EACH(name, call, count)							\
	({										\
		u64 work_before = measure_work(), before = ktime_get_ns();			\
		int err = (call);							\
		u64 after = ktime_get_ns(), work_after = measure_work();			\
											\
		print(name, work_after - work_before, count);				\
		print(name "_elapsed", after - before, count);				\
		err;									\
	})

static int one_by_one(int (*what)(struct ftrace_ops *ops))
{
	unsigned int i;
	int err = 0;

	for (i = 0; i < MANY && !err; i++)
		err = what(&ops[i]);
	return err;
}

static int all_registering(void)
{
	unsigned int i;
	int err;

	err = set_up(ops, MANY, traced, 0);
	for (i = 0; i < MANY / 2 && !err; i++) {
		ftrace_free_filter(&ops[i]);
		err = set_up(&ops[i], 1, traced_too, 0);
	}
	err = err ?: TIMED("register", one_by_one(register_ftrace_function));
	err = err ?: TIMED("unregister", one_by_one(unregister_ftrace_function));
	err = err ?: TIMED("register_batch", register_ftrace_functions(list, MANY));
	err = err ?: TIMED("unregister_batch", unregister_ftrace_functions(list, MANY));
	forget(ops, MANY);
	return err;
}

static int all_functions(void)
{
	struct ftrace_data *data;
	unsigned int count, i;
	unsigned long *ips;
	int err = -ENOMEM;

	data = read_functions(functions, &count);
	ips = vmalloc_array(count, sizeof(*ips));
	if (!data || !ips)
		goto out;
	for (i = 0; i < count; i++)
		ips[i] = data[i].ip;
	print("data_functions", count, 1);
	err = TIMED_EACH("data_attach", ftrace_data_attach(&data_ops, data, count), count);
	if (hold)
		goto out;
	err = err ?: TIMED_EACH("data_detach", ftrace_data_detach(&data_ops, ips, count), count);
	ftrace_data_release(&data_ops);
out:
	vfree(ips);
	vfree(data);
	return err;
}

static int __init bench_init(void)
{
	unsigned int i;
	int err;

	if (functions) {
		err = all_functions();
		return err ?: hold ? 0 : -EAGAIN;
	}

	for (i = 0; i < MANY; i++)
		list[i] = &ops[i];
	if (hold) {
		err = set_up(ops, MANY, traced, 0);
		return err ?: register_ftrace_functions(list, MANY);
	}
	err = registering ? all_registering() : all_calls("") ?: with_others() ?: calls_with_data();
	return err ?: -EAGAIN;
}
module_init(bench_init);

static void __exit bench_exit(void)
{
	ftrace_data_release(&data_ops);
	if (functions)
		return;
	unregister_ftrace_functions(list, MANY);
	forget(ops, MANY);
}
module_exit(bench_exit);

MODULE_DESCRIPTION("Cost of ftrace_ops");
MODULE_LICENSE("GPL");
