// SPDX-License-Identifier: GPL-2.0
/*
 * Costs of registering, arming, disarming and deregistering.
 *
 * "work" is the CPU time of the calling task: it includes busy waiting for other CPUs, but no sleep
 * (grace periods, stopped CPUs). "elapsed" is all of the time. In a guest that counts instructions
 * as nanoseconds, idle time advances to the next timer.
 */
#include <linux/array_size.h>
#include <linux/ktime.h>
#include <linux/math.h>
#include <linux/minmax.h>
#include <linux/sched.h>

#include "bench.h"

static GKH_EXIT_0VAR(exit_nothing, self)
{
	return GKH_CONTINUE;
}

/* Ten hooks, each at a place of its own. */
#define MANY(n)								\
	DECLARE_GKHOOK(bench_many_##n, 0, GKH_RO);			\
	DEFINE_GKHOOK(bench_many_##n, GKH_TASK, "");			\
	static noinline void __used place_##n(void)			\
	{								\
		GKHOOK_0VAR(bench_many_##n);				\
	}

MANY(0)
MANY(1)
MANY(2)
MANY(3)
MANY(4)
MANY(5)
MANY(6)
MANY(7)
MANY(8)
MANY(9)

static struct gkhook * const hooks[] = {
	GKHOOK(bench_many_0), GKHOOK(bench_many_1), GKHOOK(bench_many_2), GKHOOK(bench_many_3),
	GKHOOK(bench_many_4), GKHOOK(bench_many_5), GKHOOK(bench_many_6), GKHOOK(bench_many_7),
	GKHOOK(bench_many_8), GKHOOK(bench_many_9),
};

static struct gkh_record records[ARRAY_SIZE(bench_names)];

/* Cost of a call, the least of many. */
struct cost {
	u64 work;
	u64 elapsed;
};

struct stopwatch {
	u64 work;
	u64 begin;
};

/* A task's CPU time is brought up to date when it lets others run. */
static u64 work(void)
{
	schedule();
	return current->se.sum_exec_runtime;
}

static struct stopwatch start(void)
{
	u64 now = work();

	return (struct stopwatch) { .work = now, .begin = ktime_get_ns() };
}

static void stop(struct cost *cost, const struct stopwatch *watch)
{
	u64 end = ktime_get_ns();

	cost->work = min(cost->work, work() - watch->work);
	cost->elapsed = min(cost->elapsed, end - watch->begin);
}

/* Cost of the stopwatch itself. */
static struct cost empty = { U64_MAX, U64_MAX };

static void print_cost(const char *what, unsigned int count, unsigned int on, const struct cost *cost)
{
	char name[40];

	snprintf(name, sizeof(name), "%s_%u_on_%u", what, count, on);
	bench_print(name, (cost->work - min(cost->work, empty.work)) * 1000);
	snprintf(name, sizeof(name), "%s_%u_on_%u_elapsed", what, count, on);
	bench_print(name, (cost->elapsed - min(cost->elapsed, empty.elapsed)) * 1000);
}

/* Calls a function of a list of records. */
#define TIMED(cost, call)				\
	({						\
		struct stopwatch watch = start();	\
		int err = (call);			\
							\
		stop(cost, &watch);			\
		err;					\
	})

/* Makes a list of @count new records on so many hooks. */
static void make_list(unsigned int count, unsigned int on)
{
	unsigned int i;

	for (i = 0; i < count; i++)
		records[i] = (struct gkh_record) {
			.hook = hooks[i % on]->name,
			.name = bench_names[i],
			.exit = exit_nothing,
			.next = i + 1 < count ? &records[i + 1] : NULL,
		};
}

static int bench_list(unsigned int rounds, unsigned int count, unsigned int on)
{
	struct cost first = { U64_MAX, U64_MAX }, last = { U64_MAX, U64_MAX };
	struct cost arm = { U64_MAX, U64_MAX }, disarm = { U64_MAX, U64_MAX };
	struct cost all = { U64_MAX, U64_MAX };
	unsigned int round, i;
	int err = 0;

	for (round = 0; round < rounds && !err; round++) {
		make_list(count, on);
		for (i = 0; i < count && !err; i++) {
			if (i == 0)
				err = TIMED(&first, gkh_register(&records[i]));
			else if (i + 1 == count)
				err = TIMED(&last, gkh_register(&records[i]));
			else
				err = gkh_register(&records[i]);
		}
		err = err ?: TIMED(&arm, gkh_arm(records));
		err = err ?: TIMED(&disarm, gkh_disarm(records));
		err = err ?: TIMED(&all, gkh_deregister(records));
	}
	print_cost("register_first_of", count, on, &first);
	if (count > 1)
		print_cost("register_last_of", count, on, &last);
	print_cost("arm", count, on, &arm);
	print_cost("disarm", count, on, &disarm);
	print_cost("deregister", count, on, &all);
	return err;
}

/* Measures one record while others are armed, so that the places of its hook do not change. */
static int bench_one_more(unsigned int rounds, unsigned int others)
{
	struct cost add = { U64_MAX, U64_MAX }, arm = { U64_MAX, U64_MAX };
	struct cost disarm = { U64_MAX, U64_MAX }, del = { U64_MAX, U64_MAX };
	unsigned int round, i;
	struct gkh_record one;
	int err = 0;

	make_list(others, 1);
	for (i = 0; i < others && !err; i++)
		err = gkh_register(&records[i]);
	err = err ?: gkh_arm(records);
	for (round = 0; round < rounds && !err; round++) {
		one = (struct gkh_record) {
			.hook = hooks[0]->name, .name = "one", .exit = exit_nothing,
		};
		err = TIMED(&add, gkh_register(&one));
		err = err ?: TIMED(&arm, gkh_arm(&one));
		err = err ?: TIMED(&disarm, gkh_disarm(&one));
		err = err ?: TIMED(&del, gkh_deregister(&one));
	}
	print_cost("register_besides", others, 1, &add);
	print_cost("arm_besides", others, 1, &arm);
	print_cost("disarm_besides", others, 1, &disarm);
	print_cost("deregister_besides", others, 1, &del);
	return err ?: gkh_deregister(records);
}

int bench_arming(unsigned int rounds)
{
	unsigned int i;
	int err = 0;

	for (i = 0; i < rounds; i++)
		TIMED(&empty, 0);
	for (i = 0; i < ARRAY_SIZE(hooks) && !err; i++)
		err = gkh_identify(hooks[i]);
	err = err ?: bench_list(rounds, 1, 1);
	err = err ?: bench_list(rounds, 10, 1);
	err = err ?: bench_list(rounds, 100, 1);
	err = err ?: bench_list(rounds, 10, 10);
	err = err ?: bench_list(rounds, 100, 10);
	err = err ?: bench_one_more(rounds, 1);
	err = err ?: bench_one_more(rounds, 99);
	while (i-- > 0)
		gkh_delete(hooks[i]);
	return err;
}
