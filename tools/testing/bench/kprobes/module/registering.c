// SPDX-License-Identifier: GPL-2.0
/*
 * Costs of registering and unregistering a probe, alone and in batches; and costs of hits while
 * there are many probes.
 *
 * "work" is the CPU time of the calling task: it includes busy waiting for other CPUs, but no sleep
 * (grace periods). "elapsed" is all of the time.
 */
#include <linux/ktime.h>
#include <linux/math.h>
#include <linux/minmax.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "bench.h"
#include "measure.h"

struct cost {
	u64 work;
	u64 elapsed;
};

#define TIMED(cost, call)							\
	({									\
		u64 work_before = measure_work(), before = ktime_get_ns();		\
		int err = (call);						\
		u64 after = ktime_get_ns(), work_after = measure_work();		\
										\
		(cost)->work = min((cost)->work, work_after - work_before);	\
		(cost)->elapsed = min((cost)->elapsed, after - before);		\
		err;								\
	})

static void print(const char *what, const char *where, const struct cost *cost)
{
	char name[48];

	snprintf(name, sizeof(name), "%s_%s", what, where);
	bench_print(name, DIV_ROUND_CLOSEST_ULL(cost->work * 1000, BATCH));
	snprintf(name, sizeof(name), "%s_%s_elapsed", what, where);
	bench_print(name, DIV_ROUND_CLOSEST_ULL(cost->elapsed * 1000, BATCH));
}

struct batch {
	struct kprobe kps[BATCH];
	struct kprobe *list[BATCH];
	char symbols[BATCH][24];
};

static void init(struct kprobe *kp, const char *symbol, unsigned int offset)
{
	*kp = (struct kprobe){
		.symbol_name = symbol, .offset = offset, .pre_handler = bench_pre, .post_handler = bench_post,
	};
}

/* Every second function of the module. */
static void init_module_batch(struct batch *b, bool by_name)
{
	unsigned int i;

	for (i = 0; i < BATCH; i++) {
		unsigned int number = i * (MANY / BATCH);

		snprintf(b->symbols[i], sizeof(b->symbols[i]), "bench_many_%u", number);
		init(&b->kps[i], by_name ? b->symbols[i] : NULL, MANY_AT);
		if (!by_name)
			b->kps[i].addr = bench_many + number * MANY_SIZE;
		b->list[i] = &b->kps[i];
	}
}

static int init_names_batch(struct batch *b, char *names)
{
	unsigned int i;

	for (i = 0; i < BATCH && names && *names; i++) {
		char *name = names;

		names = strchrnul(names, ',');
		if (*names)
			*names++ = '\0';
		init(&b->kps[i], name, 9);
		b->list[i] = &b->kps[i];
	}
	return i == BATCH ? 0 : -E2BIG;
}

/* Measures one hit when each probe of the batch is hit once, by its function. */
static void hit_each(void)
{
	u64 begin, end;
	unsigned int i;

	begin = ktime_get_ns();
	for (i = 0; i < BATCH; i++)
		bench_call_many(i * (MANY / BATCH));
	end = ktime_get_ns();
	bench_print("hit_each_of_1000", DIV_ROUND_CLOSEST_ULL((end - begin) * 1000, BATCH));
}

static int in_module(struct batch *b, const char *where, bool by_name, unsigned int rounds)
{
	struct cost add = { U64_MAX, U64_MAX }, del = { U64_MAX, U64_MAX };
	unsigned int i;
	int err = 0;

	for (i = 0; i < rounds && !err; i++) {
		init_module_batch(b, by_name);
		err = TIMED(&add, register_kprobes(b->list, BATCH));
		if (err)
			break;
		if (!by_name) {
			hit_each();
			err = bench_inside("inside_pre_post_besides_1000", 3);
		}
		TIMED(&del, (unregister_kprobes(b->list, BATCH), 0));
	}
	if (!err) {
		print("register", where, &add);
		print("unregister", where, &del);
	}
	return err;
}

/* Says which of the batch is refused. */
static void find_bad(struct batch *b)
{
	unsigned int i;

	for (i = 0; i < BATCH; i++) {
		const char *name = b->kps[i].symbol_name;
		int err;

		init(&b->kps[i], name, 9);
		err = register_kprobe(&b->kps[i]);
		if (err)
			pr_err("kprobes_bench: cannot probe %s+9: %d\n", name, err);
		else
			unregister_kprobe(&b->kps[i]);
	}
}

static int in_kernel(struct batch *b, unsigned int rounds, const char *names)
{
	struct cost add = { U64_MAX, U64_MAX }, del = { U64_MAX, U64_MAX };
	unsigned int i;
	int err = 0;

	for (i = 0; i < rounds && !err; i++) {
		char *copy = kstrdup(names, GFP_KERNEL);

		err = copy ? init_names_batch(b, copy) : -ENOMEM;
		err = err ?: TIMED(&add, register_kprobes(b->list, BATCH));
		if (err)
			find_bad(b);
		else
			TIMED(&del, (unregister_kprobes(b->list, BATCH), 0));
		kfree(copy);
	}
	if (!err) {
		print("register", "kernel", &add);
		print("unregister", "kernel", &del);
	}
	return err;
}

int bench_registering(unsigned int rounds, char *names)
{
	struct batch *b = kvzalloc(sizeof(*b), GFP_KERNEL);
	int err;

	if (!b)
		return -ENOMEM;
	err = in_module(b, "module", false, rounds);
	err = err ?: in_module(b, "module_by_name", true, rounds);
	if (!err && names)
		err = in_kernel(b, rounds, names);
	kvfree(b);
	return err;
}
