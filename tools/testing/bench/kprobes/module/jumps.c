// SPDX-License-Identifier: GPL-2.0
/*
 * Costs of jumps in place of breakpoints: of a hit, of placing and removing a jump, and of the
 * waiting of other tasks in that time.
 */
#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/jiffies.h>
#include <linux/kthread.h>
#include <linux/math.h>
#include <linux/moduleparam.h>
#include <linux/mutex.h>
#include <linux/slab.h>

#include "bench.h"
#include "measure.h"

long bench_jump_mov(long x), bench_jump_add(long x), bench_jump_load(long x), bench_jump_je(long x);
long bench_jump_push(long x), bench_jump_imul(long x), bench_jump_jmp(long x);

/* Address of a symbol that is not exported: set by run.sh. */
static unsigned long text_mutex_is;
module_param_named(text_mutex, text_mutex_is, ulong, 0);

/* An instruction of a kernel function, after its ftrace site: a lea. */
#define KERNEL (ENTRY + 5)
#define ENTRY (IS_ENABLED(CONFIG_X86_KERNEL_IBT) ? 4 : 0)

static const struct bench_place places[] = {
	{ "jump_kernel_pre", "jump_kernel_pre_post", (measured_t)(void *)jiffies64_to_msecs, KERNEL },
	{ "jump_mov_pre", "jump_mov_pre_post", bench_jump_mov, BENCH_INSIDE },
	{ "jump_add_pre", "jump_add_pre_post", bench_jump_add, BENCH_INSIDE },
	{ "jump_load_pre", "jump_load_pre_post", bench_jump_load, BENCH_INSIDE },
	{ "jump_push_pre", "jump_push_pre_post", bench_jump_push, BENCH_INSIDE },
	{ "jump_je_pre", "jump_je_pre_post", bench_jump_je, BENCH_INSIDE },
	{ "jump_imul_pre", "jump_imul_pre_post", bench_jump_imul, BENCH_INSIDE },
	{ "jump_jmp_pre", "jump_jmp_pre_post", bench_jump_jmp, BENCH_INSIDE },
};

static bool has_jump(struct kprobe *kp)
{
	return bench_jumps_in_the_end(kp, 1);
}

/* The longest wait of a task for text_mutex. */
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
	bench_jumps_in_the_end(kps, BATCH);
	unregister_kprobes(list, BATCH);
	for (i = 0; i < BATCH; i++)
		kps[i] = (struct kprobe){
			.addr = bench_many + i * (MANY / BATCH) * MANY_SIZE + MANY_AT, .pre_handler = bench_pre,
		};
	waited = 0;
	other = kthread_run(wait_for_text, NULL, "wait_for_text");
	if (IS_ERR(other))
		return PTR_ERR(other);
	/* This task waits for jumps, not for text_mutex. */
	msleep(50);
	err = register_kprobes(list, BATCH);
	waited = 0;
	if (!err)
		bench_print("jump_many", bench_jumps_in_the_end(kps, BATCH) * 1000ULL);
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

int bench_jumps(unsigned int rounds)
{
	struct kprobe *kps = kvcalloc(BATCH, sizeof(*kps), GFP_KERNEL);
	struct kprobe **list = kvcalloc(BATCH, sizeof(*list), GFP_KERNEL);
	int err = kps && list ? 0 : -ENOMEM;

	err = err ?: bench_hits_at(places, ARRAY_SIZE(places), has_jump, rounds);
	err = err ?: many(kps, list);
	kvfree(kps);
	kvfree(list);
	return err;
}
