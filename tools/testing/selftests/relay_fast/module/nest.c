// SPDX-License-Identifier: GPL-2.0
/*
 * Clients that open more and more records, that enter sub-buffers within records, and that write from the interrupt
 * which wakes the readers. All with preemption off on the CPU that they write.
 */
#include <linux/cpu.h>
#include <linux/string.h>
#include <linux/tracepoint.h>
#include <linux/workqueue.h>

#include "selftest.h"

#define MAX_OPEN	100
#define RECORD		64u
#define LEN		(RECORD - sizeof(struct relay_fast_record))
/* Ends a wake-up that would request the next one without end. */
#define MAX_EXITS	1000

struct request {
	unsigned int cpu;
	u64 count, result;
};

static int on_cpu(const struct ctl_args *a, long (*work)(void *arg))
{
	struct request r = { .count = 1 };
	u64 cpu = 0;
	int ret;

	ret = ctl_num(a, "cpu", &cpu) ?: ctl_num(a, "count", &r.count);
	if (ret)
		return ret;
	cpus_read_lock();
	r.cpu = cpu;
	ret = cpu < nr_cpu_ids && cpu_online(cpu) ? work_on_cpu(cpu, work, &r) : -ENXIO;
	cpus_read_unlock();
	fst.result = r.result;
	return ret;
}

/* The next record of the CPU's task, with the bytes that readers expect of it. */
static bool begin(unsigned int cpu, struct relay_fast_slot *slot)
{
	struct fst_lane *lane = &fst.lane[FST_TASK][cpu];
	u32 seq = lane->seq++;

	if (!relay_fast_reserve(fst.chan, slot, fst_type(FST_TASK, seq), LEN)) {
		lane->refused++;
		return false;
	}
	rst_fill(slot->data, cpu, FST_TASK, seq, LEN);
	return true;
}

static long open_many(void *arg)
{
	static struct relay_fast_slot slots[MAX_OPEN];
	struct request *r = arg;
	u64 i;

	preempt_disable();
	for (i = 0; i < r->count && i < MAX_OPEN; i++)
		if (begin(r->cpu, &slots[r->result]))
			r->result++;
	for (i = r->result; i > 0; i--)
		relay_fast_commit(&slots[i - 1]);
	preempt_enable();
	return 0;
}

/* nest cpu= count=: opens so many records, then commits them; result: how many were accepted */
int fst_nest(const struct ctl_args *a)
{
	return on_cpu(a, open_many);
}

/* Reads all, as far as the writer can tell. */
static u64 consume(struct relay_fast_ctl *ctl)
{
	struct relay_fast_consumer *reader = (void *)ctl + RELAY_FAST_CONSUMER;
	u64 position = READ_ONCE(ctl->reserve) >> RELAY_FAST_POSITION_SHIFT;

	/* Data that was read may be overwritten. */
	smp_store_release(&reader->consumed, position);
	return position;
}

/* The sub-buffer is entered by the third of four records, each within the one before. */
static long cross_edges(void *arg)
{
	struct request *r = arg;
	struct relay_fast_ctl *ctl = fst_ctl(r->cpu);
	struct relay_fast_slot slots[4];
	u64 left, i, opened;

	while (r->count--) {
		preempt_disable();
		do {
			left = ctl->subbuf_size - (consume(ctl) & (ctl->subbuf_size - 1));
			if (left > 2 * RECORD && begin(r->cpu, &slots[0]))
				relay_fast_commit(&slots[0]);
		} while (left > 2 * RECORD);
		for (i = 0, opened = 0; i < ARRAY_SIZE(slots); i++) {
			if (begin(r->cpu, &slots[opened]))
				opened++;
			else
				r->result++;
		}
		while (opened)
			relay_fast_commit(&slots[--opened]);
		consume(ctl);
		preempt_enable();
		cond_resched();
	}
	return 0;
}

/*
 * edges cpu= count=: for each sub-buffer, a record of 64 bytes that is opened 128 bytes before its end, and three in
 * it, while nothing is left to read; result: how many were lost
 */
int fst_edges(const struct ctl_args *a)
{
	return on_cpu(a, cross_edges);
}

static unsigned int exits_cpu = -1, exits;

static void after_irq_work(void *data, int vector)
{
	struct relay_fast_slot slot;
	unsigned int cpu = raw_smp_processor_id();

	if (cpu != READ_ONCE(exits_cpu) || exits >= MAX_EXITS)
		return;
	exits++;
	if (begin(cpu, &slot))
		relay_fast_commit(&slot);
}

static void find_irq_work_exit(struct tracepoint *tp, void *found)
{
	if (!strcmp(tp->name, "irq_work_exit"))
		*(struct tracepoint **)found = tp;
}

static long write_until_refused(void *arg)
{
	struct request *r = arg;
	struct relay_fast_slot slot;

	preempt_disable();
	while (r->count--) {
		if (!begin(r->cpu, &slot))
			break;
		relay_fast_commit(&slot);
	}
	preempt_enable();
	return 0;
}

/*
 * exits cpu= count=: writes @count records, or until one is lost, while a probe at the exit from
 * the interrupt of irq_work writes a record too. The result is the number of those exits. Needs a
 * reader that waits.
 */
int fst_exits(const struct ctl_args *a)
{
	struct tracepoint *tp = NULL;
	u64 cpu = 0;
	int ret;

	for_each_kernel_tracepoint(find_irq_work_exit, &tp);
	if (!tp)
		return -EOPNOTSUPP;
	ret = ctl_num(a, "cpu", &cpu) ?: tracepoint_probe_register(tp, after_irq_work, NULL);
	if (ret)
		return ret;
	exits = 0;
	WRITE_ONCE(exits_cpu, cpu);
	ret = on_cpu(a, write_until_refused);
	WRITE_ONCE(exits_cpu, -1);
	tracepoint_probe_unregister(tp, after_irq_work, NULL);
	tracepoint_synchronize_unregister();
	fst.result = exits;
	return ret;
}
