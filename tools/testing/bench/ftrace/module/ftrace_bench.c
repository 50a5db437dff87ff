// SPDX-License-Identifier: GPL-2.0
/*
 * Measures ftrace_ops when it is loaded. Prints a line "ftrace_bench: OPERATION INSTRUCTIONS" for each figure: the best of some
 * rounds. In a guest whose nanoseconds are instructions the figures repeat.
 *
 * Loading fails with -EAGAIN when all went well; but not with hold=1, which leaves many ops registered.
 */
#include <linux/ferrotrace_ftrace.h>
#include <linux/ftrace.h>
#include <linux/irqflags.h>
#include <linux/ktime.h>
#include <linux/math.h>
#include <linux/minmax.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/sched.h>

#define LOOPS 2000
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

static struct ftrace_ops ops[MANY];
static struct ftrace_ops *list[MANY];

static void print(const char *name, u64 time, unsigned int count)
{
	u64 thousandths = DIV_ROUND_CLOSEST_ULL(time * 1000, count);

	pr_info("ftrace_bench: %s %llu.%03llu\n", name, thousandths / 1000, thousandths % 1000);
}

static notrace u64 measure(void)
{
	unsigned long flags;
	u64 begin, end;
	int i;

	local_irq_save(flags);
	begin = ktime_get_ns();
	for (i = 0; i < LOOPS; i++)
		traced(i);
	end = ktime_get_ns();
	local_irq_restore(flags);
	return end - begin;
}

static u64 best(void)
{
	u64 least = U64_MAX;
	unsigned int i;

	for (i = 0; i < rounds; i++) {
		least = min(least, measure());
		cond_resched();
	}
	return least;
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

/* Some ops on the function; @first has another one, whose flags are its own. */
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
	print(name, time - min(plain, time), LOOPS);
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

/* A task's CPU time is brought up to date when it lets others run. */
static u64 work(void)
{
	schedule();
	return current->se.sum_exec_runtime;
}

#define TIMED(name, call)								\
	({										\
		u64 work_before = work(), before = ktime_get_ns();			\
		int err = (call);							\
		u64 after = ktime_get_ns(), work_after = work();			\
											\
		print(name, work_after - work_before, MANY);				\
		print(name "_elapsed", after - before, MANY);				\
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

static int __init bench_init(void)
{
	unsigned int i;
	int err;

	for (i = 0; i < MANY; i++)
		list[i] = &ops[i];
	if (hold) {
		err = set_up(ops, MANY, traced, 0);
		return err ?: register_ftrace_functions(list, MANY);
	}
	err = registering ? all_registering() : all_calls("") ?: with_others();
	return err ?: -EAGAIN;
}
module_init(bench_init);

static void __exit bench_exit(void)
{
	unregister_ftrace_functions(list, MANY);
	forget(ops, MANY);
}
module_exit(bench_exit);

MODULE_DESCRIPTION("Cost of ftrace_ops");
MODULE_LICENSE("GPL");
