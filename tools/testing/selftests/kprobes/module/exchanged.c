// SPDX-License-Identifier: GPL-2.0
/*
 * Clients that remove and set handlers while their probes are registered: each hit calls the
 * current handlers. Also a debugger that exchanges a byte.
 */
#include <linux/jprobes.h>
#include <linux/ptrace.h>

#include "jump.h"

POST_HANDLER(on_post, container_of(p, struct kst_hit, kp)->post++);

static struct kst_hit a, b;

static void come_by(void)
{
	EXPECT_EQ(kst_call_bytes(5), 5);
	EXPECT_EQ(kst_target(4), 13);
	EXPECT_EQ(kst_jump(10), 16);
}

/* Passes once, and checks how often @hit's handlers were called. */
static void expect_counts(struct kst_hit *hit, unsigned int pre, unsigned int post)
{
	come_by();
	EXPECT_EQ(hit->pre, pre);
	EXPECT_EQ(hit->post, post);
}

/* With a handler after the instruction or without one, where @byte stands in place of the instruction; 0 is a site of ftrace. */
static void exchange(const void *where, u8 byte, bool with_post)
{
	kst_hit_at(&a, where, 0);
	if (with_post)
		a.kp.post_handler = on_post;
	if (!EXPECT_EQ(register_kprobe(&a.kp), 0))
		return;
	if (byte)
		EXPECT(kst_becomes(where, byte));
	expect_counts(&a, 1, with_post);
	WRITE_ONCE(a.kp.pre_handler, NULL);
	expect_counts(&a, 1, with_post * 2);
	WRITE_ONCE(a.kp.post_handler, NULL);
	expect_counts(&a, 1, with_post * 2);
	WRITE_ONCE(a.kp.pre_handler, kst_hit_pre);
	expect_counts(&a, 2, with_post * 2);
	/* By the handlers mainline's engine finds the ftrace ops of the site. */
	if (with_post)
		WRITE_ONCE(a.kp.post_handler, on_post);
	unregister_kprobe(&a.kp);
}

static void breakpoint(void)
{
	exchange(kst_bytes_inside, 0, false);
	exchange(kst_bytes_inside, 0, true);
}

static void ftrace_site(void)
{
	exchange((void *)kst_target + KST_PAD, 0, false);
	exchange((void *)kst_target + KST_PAD, 0, true);
}

static void jump(void)
{
	exchange(kst_jump_place(0), KST_JUMP, false);
}

/* Mainline's engine has no jumps with handlers after the instruction. */
static void jump_around(void)
{
	exchange(kst_jump_place(0), IS_ENABLED(CONFIG_KPROBES_RUST) ? KST_JUMP : KST_INT3, true);
}

/*
 * A post handler set later changes nothing that was prepared: the instruction is executed, and the
 * other handlers are called.
 */
static void post_later(void)
{
	kst_hit_at(&a, kst_bytes_inside, 0);
	kst_hit_at(&b, kst_bytes_inside, 0);
	if (!EXPECT_EQ(register_kprobe(&a.kp), 0))
		return;
	if (EXPECT_EQ(register_kprobe(&b.kp), 0)) {
		WRITE_ONCE(a.kp.post_handler, on_post);
		come_by();
		unregister_kprobe(&b.kp);
		EXPECT_EQ(b.pre, 1);
	}
	come_by();
	EXPECT_EQ(disable_kprobe(&a.kp), 0);
	come_by();
	EXPECT_EQ(enable_kprobe(&a.kp), 0);
	come_by();
	EXPECT_EQ(a.pre, 3);
	WRITE_ONCE(a.kp.post_handler, NULL);
	unregister_kprobe(&a.kp);
}

/*
 * A debugger's breakpoint is in place when a probe is enabled: it is not taken for the instruction.
 */
static void debugger(void)
{
	u8 was = kst_opcode(kst_bytes_inside);

	kst_hit_at(&a, kst_bytes_inside, 0);
	if (!EXPECT_EQ(register_kprobe(&a.kp), 0))
		return;
	EXPECT_EQ(disable_kprobe(&a.kp), 0);
	if (EXPECT(kst_becomes(kst_bytes_inside, was)))
		kst_poke(kst_bytes_inside, KST_INT3);
	/*
	 * Mainline's engine restores the byte of registration in the end, but the debugger removes
	 * its breakpoint.
	 */
	EXPECT_EQ(enable_kprobe(&a.kp), IS_ENABLED(CONFIG_KPROBES_RUST) ? -EILSEQ : 0);
	kst_poke(kst_bytes_inside, was);
	expect_counts(&a, 0, 0);
	EXPECT_EQ(enable_kprobe(&a.kp), 0);
	if (IS_ENABLED(CONFIG_KPROBES_RUST))
		expect_counts(&a, 1, 0);
	unregister_kprobe(&a.kp);
	EXPECT_EQ(kst_opcode(kst_bytes_inside), was);
	come_by();
}

static unsigned int entries, returns;

RETURN_HANDLER(on_entry, entries++);
RETURN_HANDLER(on_return, returns++);

static void expect_returns(unsigned int e, unsigned int r)
{
	come_by();
	EXPECT_EQ(entries, e);
	EXPECT_EQ(returns, r);
}

static void kretprobe(void)
{
	struct kretprobe rp = {
		.kp.symbol_name = "kst_target", .entry_handler = on_entry, .handler = on_return, .maxactive = 1,
	};

	entries = 0;
	returns = 0;
	if (!EXPECT_EQ(register_kretprobe(&rp), 0))
		return;
	expect_returns(1, 1);
	WRITE_ONCE(rp.handler, NULL);
	expect_returns(2, 1);
	WRITE_ONCE(rp.entry_handler, NULL);
	expect_returns(2, 1);
	WRITE_ONCE(rp.handler, on_return);
	expect_returns(2, 2);
	unregister_kretprobe(&rp);
	EXPECT_EQ(rp.nmissed, 0);
}

static unsigned int calls;

static int on_target(int n)
{
	calls += n;
	jprobe_return();
	return 0;
}

static void jprobe(void)
{
	struct jprobe jp = { .kp.symbol_name = "kst_target", .entry = on_target };

	calls = 0;
	if (!EXPECT_EQ(register_jprobe(&jp), 0))
		return;
	come_by();
	WRITE_ONCE(jp.entry, NULL);
	come_by();
	WRITE_ONCE(jp.entry, on_target);
	come_by();
	unregister_jprobe(&jp);
	EXPECT_EQ(calls, 8);
}

const struct test_case kst_exchanged_cases[] = {
	{ "exchanged.breakpoint", breakpoint },
	{ "exchanged.ftrace_site", ftrace_site },
	{ "jump.exchanged", jump },
	{ "jump.exchanged_around", jump_around },
	{ "exchanged.post_later", post_later },
	{ "exchanged.debugger", debugger },
	{ "exchanged.kretprobe", kretprobe },
	{ "exchanged.jprobe", jprobe },
	{ }
};
