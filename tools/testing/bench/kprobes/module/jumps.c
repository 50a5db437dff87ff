// SPDX-License-Identifier: GPL-2.0
/*
 * What jumps in the place of breakpoints cost: a hit, putting them there and taking them away, and for whom others have to wait
 * meanwhile; and in how many places there are some.
 */
#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/jiffies.h>
#include <linux/kthread.h>
#include <linux/math.h>
#include <linux/moduleparam.h>
#include <linux/mutex.h>
#include <linux/prandom.h>
#include <linux/slab.h>

#include "bench.h"
#include "measure.h"

#define JUMP 0xe9
/* How long nothing may happen before all jumps are there that come, in milliseconds. */
#define QUIET 3000
/* Random places; and how far they are apart at least, which is more than a jump displaces. */
#define RANDOM 3000
#define APART 20

long bench_jump_mov(long x), bench_jump_add(long x), bench_jump_load(long x), bench_jump_je(long x);
long bench_jump_imul(long x), bench_jump_jmp(long x);

/* What is not exported: run.sh says where it is. */
static unsigned long text_mutex_is, stext_is, etext_is;
module_param_named(text_mutex, text_mutex_is, ulong, 0);
module_param_named(_stext, stext_is, ulong, 0);
module_param_named(_etext, etext_is, ulong, 0);

static bool is_jump(const struct kprobe *kp)
{
	return READ_ONCE(*kp->addr) == JUMP;
}

static unsigned int jumps(struct kprobe *kps, unsigned int count)
{
	unsigned int n = 0;

	while (count--)
		n += is_jump(&kps[count]);
	return n;
}

/* How many there are when no more come. */
static unsigned int jumps_in_the_end(struct kprobe *kps, unsigned int count)
{
	unsigned int before = 0, n, quiet = 0;

	do {
		msleep(100);
		n = jumps(kps, count);
		quiet = n == before ? quiet + 100 : 0;
		before = n;
	} while (n < count && quiet < QUIET);
	return n;
}

/* One of the kernel's functions, after its ftrace site: a lea. */
#define KERNEL (ENTRY + 5)
#define ENTRY (IS_ENABLED(CONFIG_X86_KERNEL_IBT) ? 4 : 0)

static const struct bench_place places[] = {
	{ "jump_kernel_pre", "jump_kernel_pre_post", (measured_t)(void *)jiffies64_to_msecs, KERNEL },
	{ "jump_mov_pre", "jump_mov_pre_post", bench_jump_mov, BENCH_INSIDE },
	{ "jump_add_pre", "jump_add_pre_post", bench_jump_add, BENCH_INSIDE },
	{ "jump_load_pre", "jump_load_pre_post", bench_jump_load, BENCH_INSIDE },
	{ "jump_je_pre", "jump_je_pre_post", bench_jump_je, BENCH_INSIDE },
	{ "jump_imul_pre", "jump_imul_pre_post", bench_jump_imul, BENCH_INSIDE },
	{ "jump_jmp_pre", "jump_jmp_pre_post", bench_jump_jmp, BENCH_INSIDE },
};

static bool has_jump(struct kprobe *kp)
{
	return jumps_in_the_end(kp, 1);
}

/* The longest that somebody has waited for text_mutex. */
static u64 waited;

static int wait_for_text(void *unused)
{
	struct mutex *text = (struct mutex *)text_mutex_is;

	while (!kthread_should_stop()) {
		u64 begin = ktime_get_ns();

		mutex_lock(text);
		mutex_unlock(text);
		waited = max(waited, ktime_get_ns() - begin);
		usleep_range(20, 40);
	}
	return 0;
}

static int many(struct kprobe *kps, struct kprobe **list)
{
	struct task_struct *other;
	u64 begin, work;
	unsigned int i;
	int err = 0;

	for (i = 0; i < BATCH; i++) {
		kps[i] = (struct kprobe){
			.addr = bench_many + i * (MANY / BATCH) * MANY_SIZE + MANY_AT, .pre_handler = bench_pre,
		};
		list[i] = &kps[i];
	}
	work = measure_work();
	begin = ktime_get_ns();
	for (i = 0; i < BATCH && !err; i++)
		err = register_kprobe(&kps[i]);
	begin = ktime_get_ns() - begin;
	work = measure_work() - work;
	if (err) {
		unregister_kprobes(list, i - 1);
		return err;
	}
	bench_print("jump_register_singly", DIV_ROUND_CLOSEST_ULL(work * 1000, BATCH));
	bench_print("jump_register_singly_elapsed", DIV_ROUND_CLOSEST_ULL(begin * 1000, BATCH));
	jumps_in_the_end(kps, BATCH);
	unregister_kprobes(list, BATCH);
	for (i = 0; i < BATCH; i++)
		kps[i] = (struct kprobe){
			.addr = bench_many + i * (MANY / BATCH) * MANY_SIZE + MANY_AT, .pre_handler = bench_pre,
		};
	waited = 0;
	other = kthread_run(wait_for_text, NULL, "wait_for_text");
	if (IS_ERR(other))
		return PTR_ERR(other);
	/* It is somebody who waits for jumps, not for this. */
	msleep(50);
	err = register_kprobes(list, BATCH);
	waited = 0;
	if (!err)
		bench_print("jump_many", jumps_in_the_end(kps, BATCH) * 1000ULL);
	kthread_stop(other);
	bench_print("jump_text_mutex", waited * 1000);
	if (err)
		return err;
	work = measure_work();
	begin = ktime_get_ns();
	unregister_kprobes(list, BATCH);
	begin = ktime_get_ns() - begin;
	work = measure_work() - work;
	bench_print("jump_unregister", DIV_ROUND_CLOSEST_ULL(work * 1000, BATCH));
	bench_print("jump_unregister_elapsed", DIV_ROUND_CLOSEST_ULL(begin * 1000, BATCH));
	return 0;
}

/* Per cent of random places. Which they are, each kernel has its own answer to: those that can be probed. */
static int share(const char *name, struct kprobe *kps, struct kprobe **list, bool post)
{
	struct rnd_state random;
	unsigned int count = 0, tries = 0;

	prandom_seed_state(&random, 16);
	while (count < RANDOM && tries++ < 50 * RANDOM) {
		unsigned long at = stext_is + prandom_u32_state(&random) % (etext_is - stext_is);
		unsigned int i;

		for (i = 0; i < count; i++)
			if (abs((long)(at - (unsigned long)kps[i].addr)) < APART)
				break;
		if (i < count)
			continue;
		kps[count] = (struct kprobe){
			.addr = (kprobe_opcode_t *)at, .pre_handler = bench_pre, .post_handler = post ? bench_post : NULL,
		};
		list[count] = &kps[count];
		if (register_kprobe(&kps[count]) == 0)
			count++;
		cond_resched();
	}
	if (count == RANDOM)
		bench_print(name, jumps_in_the_end(kps, RANDOM) * 100000ULL / RANDOM);
	unregister_kprobes(list, count);
	return count == RANDOM ? 0 : -ENODATA;
}

int bench_jumps(unsigned int rounds)
{
	struct kprobe *kps = kvcalloc(RANDOM, sizeof(*kps), GFP_KERNEL);
	struct kprobe **list = kvcalloc(RANDOM, sizeof(*list), GFP_KERNEL);
	int err = kps && list ? 0 : -ENOMEM;

	err = err ?: bench_hits_at(places, ARRAY_SIZE(places), has_jump, rounds);
	err = err ?: many(kps, list);
	err = err ?: share("jump_share", kps, list, false);
	/* The C engine has none there. */
	if (!IS_ENABLED(CONFIG_KPROBES_ENGINE_C))
		err = err ?: share("jump_share_post", kps, list, true);
	kvfree(kps);
	kvfree(list);
	return err;
}
