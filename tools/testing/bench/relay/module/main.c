// SPDX-License-Identifier: GPL-2.0
/*
 * Measures the operations of <linux/relay.h> and <linux/ferrotrace_relay.h> when it is loaded, and
 * prints a line "relay_bench: OPERATION_SIZE NANOSECONDS" for each: the best of many rounds. In a
 * guest that counts instructions as nanoseconds (instructions=1) the figures repeat.
 *
 * Loading always fails, with -EAGAIN on success: the module must not stay.
 */
#include <linux/debugfs.h>
#include <linux/err.h>
#include <linux/irqflags.h>
#include <linux/klog.h>
#include <linux/ktime.h>
#include <linux/minmax.h>
#include <linux/module.h>

#include "bench.h"

#define OPENS	8

static unsigned int rounds = 3;
module_param(rounds, uint, 0);
MODULE_PARM_DESC(rounds, "How often each operation is measured; the best counts");

bool bench_instructions;
module_param_named(instructions, bench_instructions, bool, 0);
MODULE_PARM_DESC(instructions, "The clock counts the instructions of all CPUs");

static struct dentry *dir;

/* Overwrite mode: every write succeeds. */
static int subbuf_start(struct rchan_buf *buf, void *subbuf, void *prev_subbuf)
{
	return 1;
}

static const struct rchan_callbacks callbacks = {
	.create_buf_file = bench_create_file,
	.remove_buf_file = bench_remove_file,
	.subbuf_start = subbuf_start,
};

static struct rchan *open_relay(void)
{
	return relay_open("bench", dir, SUBBUF_SIZE, N_SUBBUFS, &callbacks, NULL);
}

void bench_print(const char *name, size_t len, u64 thousandths)
{
	pr_info("relay_bench: %s_%zu %llu.%03llu\n", name, len, thousandths / 1000, thousandths % 1000);
}

/* Nanoseconds of one round, without interrupts. */
static u64 measure(const struct bench_channels *chans, const struct bench_op *op)
{
	unsigned long flags;
	u64 begin, end;

	local_irq_save(flags);
	begin = ktime_get_ns();
	op->run(chans, op->len);
	end = ktime_get_ns();
	local_irq_restore(flags);
	return end - begin;
}

/* Round by round, so that all operations see the same machine. */
static void bench_ops(const struct bench_channels *chans)
{
	struct bench_op empty = { "empty", bench_run_empty, 0, U64_MAX };
	struct bench_op *ops[] = { bench_relay_ops, bench_fast_ops, chans->flight ? bench_flight_ops : bench_no_ops };
	struct bench_op *op;
	unsigned int i;
	int k;

	for (i = 0; i < rounds; i++) {
		empty.best = min(empty.best, measure(chans, &empty));
		for (k = 0; k < ARRAY_SIZE(ops); k++) {
			for (op = ops[k]; op->name; op++) {
				u64 time = measure(chans, op);

				op->best = i ? min(op->best, time) : time;
			}
		}
		cond_resched();
	}
	for (k = 0; k < ARRAY_SIZE(ops); k++)
		for (op = ops[k]; op->name; op++)
			bench_print(op->name, op->len, (op->best - empty.best) * 1000 / WRITES);
}

static int bench_open_close(void)
{
	u64 opening = U64_MAX, closing = U64_MAX, begin, middle;
	int i;

	for (i = 0; i < OPENS; i++) {
		struct rchan *chan;

		begin = ktime_get_ns();
		chan = open_relay();
		middle = ktime_get_ns();
		if (!chan)
			return -ENOMEM;
		relay_close(chan);
		closing = min(closing, ktime_get_ns() - middle);
		opening = min(opening, middle - begin);
	}
	bench_print("relay_open", N_SUBBUFS, opening * 1000);
	bench_print("relay_close", N_SUBBUFS, closing * 1000);
	return 0;
}

/* Measures trace statements without a listener, with all possible listeners loaded. */
static void bench_klog(void)
{
	u64 best = U64_MAX;
	unsigned int i;
	int k;

	for (i = 0; i < rounds; i++) {
		unsigned long flags;
		u64 begin;

		local_irq_save(flags);
		begin = ktime_get_ns();
		for (k = 0; k < WRITES; k++)
			klog_printk("queue %d stalled for %d ns\n", k, i);
		best = min(best, ktime_get_ns() - begin);
		local_irq_restore(flags);
	}
	bench_print("klog_printk_off", 0, best * 1000 / WRITES);
}

static int __init bench_init(void)
{
	struct bench_channels chans;
	int ret = -ENOMEM;

	dir = debugfs_create_dir("relay_bench", NULL);
	chans.relay = open_relay();
	chans.fast = relay_fast_open("fast", dir, SUBBUF_SIZE, N_SUBBUFS, RELAY_FAST_OVERWRITE, NULL);
	chans.flight = relay_fast_open_reserved("flight", dir, SUBBUF_SIZE, N_SUBBUFS, RELAY_FAST_OVERWRITE, NULL,
						"bench");
	if (IS_ERR(chans.flight))
		chans.flight = NULL;
	if (chans.relay && !IS_ERR(chans.fast)) {
		bench_ops(&chans);
		ret = bench_cpus(&chans, rounds);
	}
	if (chans.relay)
		relay_close(chans.relay);
	relay_fast_close(chans.fast);
	relay_fast_close(chans.flight);
	if (!ret)
		ret = bench_open_close();
	bench_klog();
	debugfs_remove(dir);
	return ret ?: -EAGAIN;
}
module_init(bench_init);

MODULE_DESCRIPTION("Cost of the relay interfaces' operations");
MODULE_LICENSE("GPL");
