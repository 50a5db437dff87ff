// SPDX-License-Identifier: GPL-2.0
/*
 * Writing on all CPUs at once.
 */
#include <linux/atomic.h>
#include <linux/cpumask.h>
#include <linux/ktime.h>
#include <linux/minmax.h>
#include <linux/percpu.h>
#include <linux/processor.h>
#include <linux/smp.h>

#include "bench.h"

#define REPEATS	20

struct crowd {
	const struct bench_channels *chans;
	const struct bench_op *op;
	int size;
	atomic_t waiting;
	u64 __percpu *begin;
	u64 __percpu *end;
};

/* On each CPU of the crowd, with interrupts off: waits until all are here, and writes. */
static void crowd_write(void *arg)
{
	struct crowd *crowd = arg;
	int i;

	atomic_inc(&crowd->waiting);
	while (atomic_read(&crowd->waiting) < crowd->size)
		cpu_relax();
	*this_cpu_ptr(crowd->begin) = ktime_get_ns();
	for (i = 0; i < REPEATS; i++)
		crowd->op->run(crowd->chans, crowd->op->len);
	*this_cpu_ptr(crowd->end) = ktime_get_ns();
}

/* Nanoseconds from the first CPU's begin to the last one's end. */
static u64 crowd_run(struct crowd *crowd, const struct cpumask *cpus)
{
	u64 begin = U64_MAX, end = 0;
	int cpu;

	crowd->size = cpumask_weight(cpus);
	atomic_set(&crowd->waiting, 0);
	on_each_cpu_mask(cpus, crowd_write, crowd, true);
	for_each_cpu(cpu, cpus) {
		begin = min(begin, *per_cpu_ptr(crowd->begin, cpu));
		end = max(end, *per_cpu_ptr(crowd->end, cpu));
	}
	return end - begin;
}

/* Throughput of all CPUs, in thousandths of one CPU's. */
static u64 crowd_speedup(struct crowd *crowd, unsigned int rounds)
{
	u64 one = U64_MAX, all = U64_MAX;
	unsigned int i, cpus = num_online_cpus();

	for (i = 0; i < rounds; i++) {
		one = min(one, crowd_run(crowd, cpumask_of(raw_smp_processor_id())));
		all = min(all, crowd_run(crowd, cpu_online_mask));
	}
	/* Where the clock counts the instructions of all CPUs, each had its share of the time. */
	if (bench_instructions)
		all /= cpus;
	return one * cpus * 1000 / all;
}

/* Cache lines that two CPUs write, in the words and the data of their buffers. */
static unsigned int shared_lines(const struct relay_fast *fast)
{
	unsigned int shared = 0;
	int a, b;

	for_each_online_cpu(a) {
		for_each_online_cpu(b) {
			unsigned long first = (unsigned long)*per_cpu_ptr(fast->ctl, a);
			unsigned long second = (unsigned long)*per_cpu_ptr(fast->ctl, b);
			unsigned long last = first + RELAY_FAST_DATA + SUBBUF_SIZE * N_SUBBUFS - 1;

			if (a != b && second / L1_CACHE_BYTES >= first / L1_CACHE_BYTES &&
			    second / L1_CACHE_BYTES <= last / L1_CACHE_BYTES)
				shared += 1 + (last - second) / L1_CACHE_BYTES;
		}
	}
	return shared;
}

int bench_cpus(const struct bench_channels *chans, unsigned int rounds)
{
	struct bench_op *ops[] = { bench_relay_ops, bench_fast_ops };
	struct crowd crowd = { .chans = chans };
	int k;

	crowd.begin = alloc_percpu(u64);
	crowd.end = alloc_percpu(u64);
	if (!crowd.begin || !crowd.end) {
		free_percpu(crowd.begin);
		free_percpu(crowd.end);
		return -ENOMEM;
	}
	for (k = 0; k < ARRAY_SIZE(ops); k++) {
		for (crowd.op = ops[k]; crowd.op->len != 64; crowd.op++)
			;
		bench_print(k ? "fast_write_cpus" : "relay_write_cpus", num_online_cpus(),
			    crowd_speedup(&crowd, rounds));
	}
	bench_print("fast_write_shared", num_online_cpus(), shared_lines(chans->fast) * 1000);
	free_percpu(crowd.begin);
	free_percpu(crowd.end);
	return 0;
}
