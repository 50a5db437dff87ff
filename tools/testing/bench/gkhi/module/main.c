// SPDX-License-Identifier: GPL-2.0
/*
 * Measures the hooks of <linux/gkhi.h>, and static calls and tracepoints that do the same work,
 * when it is loaded. Prints a line "gkhi_bench: OPERATION NANOSECONDS" for each: the best of many
 * rounds. In a guest that counts instructions as nanoseconds the figures repeat.
 *
 * Loading always fails, with -EAGAIN on success: the module must not stay.
 */
#include <linux/irqflags.h>
#include <linux/ktime.h>
#include <linux/math.h>
#include <linux/minmax.h>
#include <linux/module.h>

#include "bench.h"

static unsigned int rounds = 3;
module_param(rounds, uint, 0);
MODULE_PARM_DESC(rounds, "How often each operation is measured; the best counts");

static unsigned int arming = 3;
module_param(arming, uint, 0);
MODULE_PARM_DESC(arming, "How often registering and arming is measured; the best counts");

#define N10(t) #t "0", #t "1", #t "2", #t "3", #t "4", #t "5", #t "6", #t "7", #t "8", #t "9"
const char * const bench_names[] = {
	N10(0), N10(1), N10(2), N10(3), N10(4), N10(5), N10(6), N10(7), N10(8), N10(9),
};

void bench_print(const char *name, u64 thousandths)
{
	pr_info("gkhi_bench: %s %llu.%03llu\n", name, thousandths / 1000, thousandths % 1000);
}

/* Nanoseconds of one round, without interrupts. */
static u64 measure(void (*run)(const struct bench_args *args))
{
	static const struct bench_args args = { 1, 2, 3, 4, 5 };
	unsigned long flags;
	u64 begin, end;

	local_irq_save(flags);
	begin = ktime_get_ns();
	run(&args);
	end = ktime_get_ns();
	local_irq_restore(flags);
	return end - begin;
}

/* Round by round, so that all operations see the same machine. */
static void measure_all(void)
{
	u64 empty = U64_MAX;
	struct bench_op *op;
	unsigned int i;

	for (i = 0; i < rounds; i++) {
		empty = min(empty, measure(bench_run_empty));
		for (op = bench_ops; op->name; op++) {
			u64 time = measure(op->run);

			op->best = i ? min(op->best, time) : time;
		}
		cond_resched();
	}
	for (op = bench_ops; op->name; op++) {
		u64 time = op->best > empty ? op->best - empty : 0;

		/* The function around the loop is less than a hundredth. */
		bench_print(op->name, DIV_ROUND_CLOSEST_ULL(time * 100, LOOPS) * 10);
	}
}

static int set_up(struct bench_op *op)
{
	unsigned int i;
	int err = 0;

	if (op->probes)
		err = op->probes(op->count);
	if (op->hook)
		err = gkh_identify(op->hook);
	for (i = 0; i < op->exits && !err; i++) {
		op->records[i] = (struct gkh_record) {
			.hook = op->hook->name,
			.name = bench_names[i],
			.exit = op->exit,
			.params = op->hook->count,
			.flags = op->flags,
		};
		err = gkh_register(&op->records[i]) ?: gkh_arm(&op->records[i]);
	}
	return err;
}

static void tear_down(struct bench_op *op)
{
	unsigned int i;

	if (op->probes)
		op->probes(0);
	if (op->hook)
		gkh_delete(op->hook);
	for (i = 0; i < op->exits; i++)
		gkh_deregister(&op->records[i]);
}

static int __init bench_init(void)
{
	struct bench_op *op;
	int err = 0;

	for (op = bench_ops; op->name && !err; op++)
		err = set_up(op);
	if (!err)
		measure_all();
	while (op-- > bench_ops)
		tear_down(op);
	if (!err)
		err = bench_arming(arming);
	return err ?: -EAGAIN;
}
module_init(bench_init);

MODULE_DESCRIPTION("Cost of hooks");
MODULE_LICENSE("GPL");
