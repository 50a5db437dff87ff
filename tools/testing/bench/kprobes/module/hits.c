// SPDX-License-Identifier: GPL-2.0
/* Cost of a hit: a loop that calls a probed function, less the same loop without a probe. */
#include <linux/array_size.h>
#include <linux/delay.h>
#include <linux/math.h>

#include "bench.h"
#include "measure.h"

long bench_mov(long x), bench_add(long x), bench_lea_rip(long x), bench_load(long x), bench_nop(long x);
long bench_test(long x), bench_imul(long x), bench_jmp(long x);

/* A function with an ftrace site. */
static noinline __noclone long bench_entry(long x)
{
	barrier();
	return x;
}

/* A figure of @hits hits. */
static void print(const char *name, u64 time, unsigned int hits)
{
	bench_print(name, DIV_ROUND_CLOSEST_ULL(time * 1000, hits));
}

/* The time of MEASURE_LOOPS hits. -EAGAIN if the probe is not ready. */
static int hit(u64 *time, const struct bench_place *place, bool post, bool (*ready)(struct kprobe *kp), unsigned int rounds)
{
	struct kprobe kp = {
		.addr = (kprobe_opcode_t *)place->function, .offset = place->offset,
		.pre_handler = bench_pre, .post_handler = post ? bench_post : NULL,
	};
	u64 plain = measure_calls(place->function, rounds), probed = 0;
	const kprobe_opcode_t *byte = kp.addr + place->offset;
	kprobe_opcode_t was = READ_ONCE(*byte);
	unsigned int i;
	int err;

	err = register_kprobe(&kp);
	if (err)
		return err;
	if (ready && !ready(&kp))
		err = -EAGAIN;
	else
		probed = measure_calls(place->function, rounds);
	unregister_kprobe(&kp);
	/* A jump is removed some time after its probe. */
	for (i = 0; ready && i < 1000 && READ_ONCE(*byte) != was; i++)
		msleep(20);
	*time = probed - min(plain, probed);
	return err;
}

int bench_hits_at(const struct bench_place *places, unsigned int count, bool (*ready)(struct kprobe *kp), unsigned int rounds)
{
	unsigned int i;
	u64 time;
	int err;

	for (i = 0; i < 2 * count; i++) {
		const struct bench_place *place = &places[i / 2];
		bool post = i % 2;

		err = hit(&time, place, post, ready, rounds);
		if (!err)
			print(post ? place->post : place->pre, time, MEASURE_LOOPS);
		else if (err != -EAGAIN)
			return err;
	}
	return 0;
}

static int on_return(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	return 0;
}
NOKPROBE_SYMBOL(on_return);

static int kretprobe(const char *name, measured_t function, unsigned int rounds)
{
	struct kretprobe rp = { .kp.addr = (kprobe_opcode_t *)function, .handler = on_return };
	u64 plain = measure_calls(function, rounds), probed;
	int err;

	err = register_kretprobe(&rp);
	if (err)
		return err;
	probed = measure_calls(function, rounds);
	unregister_kretprobe(&rp);
	print(name, probed - min(plain, probed), MEASURE_LOOPS);
	return rp.nmissed ? -EBUSY : 0;
}

static const struct bench_place places[] = {
	{ "entry_pre", "entry_pre_post", bench_entry, 0 },
	{ "mov_pre", "mov_pre_post", bench_mov, BENCH_INSIDE },
	{ "add_pre", "add_pre_post", bench_add, BENCH_INSIDE },
	{ "lea_rip_pre", "lea_rip_pre_post", bench_lea_rip, BENCH_INSIDE },
	{ "load_pre", "load_pre_post", bench_load, BENCH_INSIDE },
	{ "nop_pre", "nop_pre_post", bench_nop, BENCH_INSIDE },
	{ "test_pre", "test_pre_post", bench_test, BENCH_INSIDE },
	{ "imul_pre", "imul_pre_post", bench_imul, BENCH_INSIDE },
	{ "jmp_pre", "jmp_pre_post", bench_jmp, BENCH_INSIDE },
};

int bench_inside(const char *name, unsigned int rounds)
{
	u64 time, sum = 0;
	unsigned int i, n = 0;
	int err = 0;

	for (i = 0; i < ARRAY_SIZE(places) && !err; i++) {
		if (places[i].offset != BENCH_INSIDE)
			continue;
		err = hit(&time, &places[i], true, NULL, rounds);
		sum += err ? 0 : time;
		n++;
	}
	if (!err)
		print(name, sum, n * MEASURE_LOOPS);
	return err;
}

int bench_hits(unsigned int rounds)
{
	int err = bench_hits_at(places, ARRAY_SIZE(places), NULL, rounds);

	err = err ?: bench_inside("inside_pre_post", rounds);
	err = err ?: kretprobe("kretprobe", bench_entry, rounds);
	err = err ?: kretprobe("kretprobe_breakpoint", bench_mov, rounds);
	return err;
}
