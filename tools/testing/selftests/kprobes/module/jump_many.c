// SPDX-License-Identifier: GPL-2.0
/*
 * Jumps at many places at once, so that detours take several pages; and the events that perf gets
 * of them: perf_test.c reads these while jump.perf_* run.
 */
#include <linux/delay.h>
#include <linux/minmax.h>
#include <linux/printk.h>
#include <linux/slab.h>

#include "jump.h"
#include "rows.h"

static u8 *many_at(unsigned int i)
{
	return kst_many + i * KST_MANY_SIZE + KST_MANY_AT;
}

static long call_many(unsigned int i, long x)
{
	return kst_call_code(kst_many + i * KST_MANY_SIZE, x);
}

POST_HANDLER(many_post, container_of(p, struct kst_hit, kp)->post++);

/*
 * Waits until all have jumps, as long as further jumps or detours are made. With its detour, a
 * probe counts as optimised.
 */
static unsigned int jumps(const struct kst_hit *many, unsigned int count)
{
	unsigned int before = 0, now = 0, ready, i, quiet;

	for (quiet = 0; quiet < 50 && now < count; quiet++) {
		msleep(100);
		for (i = now = ready = 0; i < count; i++) {
			now += kst_opcode(many_at(i)) == KST_JUMP;
			ready += !!(READ_ONCE(many[i].kp.flags) & KPROBE_FLAG_OPTIMIZED);
		}
		if (now + ready != before)
			quiet = 0;
		before = now + ready;
	}
	return now;
}

static void many_jumps(bool around)
{
	unsigned int i, bad = 0, count = min_t(unsigned int, kst_many_probes, KST_MANY);
	struct kst_hit *many = kcalloc(count, sizeof(*many), GFP_KERNEL);
	struct kprobe **list = kcalloc(count, sizeof(*list), GFP_KERNEL);

	if (!EXPECT(many && list))
		goto out;
	for (i = 0; i < count; i++) {
		list[i] = kst_hit_at(&many[i], many_at(i), 0);
		if (around)
			many[i].kp.post_handler = many_post;
	}
	if (!EXPECT_EQ(register_kprobes(list, count), 0))
		goto out;
	EXPECT_EQ(jumps(many, count), count);
	for (i = 0; i < count; i++) {
		bad += call_many(i, 5) != i + 5;
		bad += many[i].pre != 1 || many[i].post != around || many[i].kp.nmissed;
	}
	EXPECT_EQ(bad, 0);
	unregister_kprobes(list, count);
	for (i = 0; i < count; i++) {
		bad += call_many(i, 5) != i + 5;
		bad += many[i].pre != 1;
	}
	EXPECT_EQ(bad, 0);
out:
	kfree(list);
	kfree(many);
}

static void many(void)
{
	many_jumps(false);
}

static void many_around(void)
{
	/* The C engine has no jump where a handler is for after the instruction. */
	if (IS_ENABLED(CONFIG_KPROBES_ENGINE_C))
		case_skip("not with the C engine");
	else
		many_jumps(true);
}

/* Prints the stack to the log, and to perf if it samples printed lines. */
PRE_HANDLER(dump, container_of(p, struct kst_hit, kp)->pre++; dump_stack());

static noinline __noclone unsigned long kst_jump_dumped(unsigned long arg)
{
	return kst_jump(arg) + 1;
}

static void trace(void)
{
	static struct kst_hit a;

	kst_hit_at(&a, kst_jump_place(0), 0)->pre_handler = dump;
	EXPECT(register_kprobe(&a.kp) == 0);
	EXPECT(kst_becomes(kst_jump_place(0), KST_JUMP));
	EXPECT(kst_jump_dumped(10) == 17);
	EXPECT(a.pre == 1);
	unregister_kprobe(&a.kp);
}

const struct test_case kst_jump_many_cases[] = {
	{ "jump.many", many },
	{ "jump.many_around", many_around },
	{ "jump.perf_pages", many },
	{ "jump.perf_trace", trace },
	{}
};
