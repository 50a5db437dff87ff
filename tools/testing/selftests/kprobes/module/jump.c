// SPDX-License-Identifier: GPL-2.0
/*
 * Jumps in the place of breakpoints: "optimised" probes. run.sh has them wanted (debug.kprobes-optimization) here only.
 */
#include <linux/array_size.h>
#include <linux/delay.h>
#include <linux/jiffies.h>
#include <linux/kallsyms.h>
#include <linux/ptrace.h>
#include <linux/stacktrace.h>
#include <linux/string.h>

#include "jump.h"


noinline __noclone unsigned long kst_jump(unsigned long a)
{
	asm volatile("1:	incl	%%eax\n"
		     "2:	incl	%%eax\n"
		     "3:	incl	%%eax\n"
		     "4:	incl	%%eax\n"
		     "5:	incl	%%eax\n"
		     "6:	incl	%%eax\n"
		     "	.pushsection .rodata, \"a\"\n"
		     "	.balign 8\n"
		     "	.globl	kst_jump_places\n"
		     "kst_jump_places:\n"
		     "	.quad	1b, 2b, 3b, 4b, 5b, 6b\n"
		     "	.popsection\n"
		     : "+a"(a));
	return a;
}

void *kst_jump_place(unsigned int n)
{
	return (void *)kst_jump_places[n];
}

bool kst_becomes(const void *where, u8 byte)
{
	for (int i = 0; i < 3000; i++) {
		if (kst_opcode(where) == byte)
			return true;
		usleep_range(900, 1100);
	}
	return false;
}

/* Several CPUs may run this at once: the stored values are those of one of them. */
int __no_kcsan kst_hit_pre(struct kprobe *p, struct pt_regs *regs)
{
	struct kst_hit *hit = container_of(p, struct kst_hit, kp);

	hit->pre++;
	hit->ax = regs->ax;
	hit->ip = regs->ip;
	hit->sp = regs->sp;
	hit->flags = regs->flags;
	return 0;
}
NOKPROBE_SYMBOL(kst_hit_pre);

struct kprobe *kst_hit_at(struct kst_hit *hit, const void *where, u32 flags)
{
	*hit = (struct kst_hit){
		.kp = { .addr = (kprobe_opcode_t *)where, .pre_handler = kst_hit_pre, .flags = flags },
	};
	return &hit->kp;
}

bool kst_stays_breakpoint(const void *where)
{
	static struct kst_hit other;
	bool jumps;

	if (!EXPECT_EQ(register_kprobe(kst_hit_at(&other, kst_jump_place(0), 0)), 0))
		return false;
	jumps = kst_becomes(kst_jump_place(0), KST_JUMP);
	/* For work that is done in another batch. */
	msleep(20);
	unregister_kprobe(&other.kp);
	return EXPECT(jumps) && kst_opcode(where) == KST_INT3;
}

static void *place(unsigned int n)
{
	return kst_jump_place(n);
}

/* Waits until an instruction begins with this byte. */
static bool becomes(unsigned int n, kprobe_opcode_t byte)
{
	return kst_becomes(place(n), byte);
}

POST_HANDLER(on_post, container_of(p, struct kst_hit, kp)->post++);

static struct kst_hit a, b, c;

/* A probe at the n-th place. */
static struct kprobe *at(struct kst_hit *hit, unsigned int n, u32 flags)
{
	return kst_hit_at(hit, place(n), flags);
}

static void hit(void)
{
	EXPECT(register_kprobe(at(&a, 0, 0)) == 0);
	EXPECT(becomes(0, KST_JUMP));
	EXPECT(kst_jump(10) == 16);
	EXPECT(a.pre == 1);
	EXPECT((u32)a.ax == 10);
	EXPECT(a.ip == (unsigned long)place(0) + 1);
	EXPECT(a.flags & X86_EFLAGS_IF);
	EXPECT(kst_jump(0xffffffff) == 5);
	EXPECT(a.pre == 2);
	unregister_kprobe(&a.kp);
	EXPECT(becomes(0, a.kp.opcode));
	EXPECT(kst_jump(10) == 16);
	EXPECT(a.pre == 2);
}

static void two(void)
{
	EXPECT(register_kprobe(at(&a, 0, 0)) == 0);
	EXPECT(register_kprobe(at(&b, 0, 0)) == 0);
	EXPECT(becomes(0, KST_JUMP));
	EXPECT(kst_jump(10) == 16);
	EXPECT(a.pre == 1 && b.pre == 1);
	EXPECT(disable_kprobe(&a.kp) == 0);
	EXPECT(kst_jump(10) == 16);
	EXPECT(a.pre == 1 && b.pre == 2);
	unregister_kprobe(&b.kp);
	EXPECT(kst_jump(10) == 16);
	EXPECT(b.pre == 2);
	unregister_kprobe(&a.kp);
}

/*
 * The jump is removed before the call returns that registers a probe in the bytes it covers. It is
 * placed again when that probe is unregistered.
 */
static void neighbour(void)
{
	EXPECT(register_kprobe(at(&a, 0, 0)) == 0);
	EXPECT(becomes(0, KST_JUMP));
	EXPECT(register_kprobe(at(&b, 1, 0)) == 0);
	EXPECT(kst_opcode(place(0)) == KST_INT3);
	EXPECT(kst_jump(10) == 16);
	EXPECT(a.pre == 1 && b.pre == 1);
	EXPECT((u32)b.ax == 11);
	unregister_kprobe(&b.kp);
	EXPECT(becomes(0, KST_JUMP));
	EXPECT(kst_jump(10) == 16);
	EXPECT(a.pre == 2);
	unregister_kprobe(&a.kp);
}

/* CVE-2026-98856: a disabled probe, which has no breakpoint, is registered in between. */
static void disabled_neighbour(void)
{
	EXPECT(register_kprobe(at(&a, 0, 0)) == 0);
	EXPECT(becomes(0, KST_JUMP));
	EXPECT(register_kprobe(at(&b, 1, KPROBE_FLAG_DISABLED)) == 0);
	EXPECT(register_kprobe(at(&c, 2, 0)) == 0);
	msleep(50);
	EXPECT(kst_opcode(place(0)) == KST_INT3);
	EXPECT(kst_jump(10) == 16);
	EXPECT(a.pre == 1 && b.pre == 0 && c.pre == 1);
	EXPECT(enable_kprobe(&b.kp) == 0);
	EXPECT(kst_jump(10) == 16);
	EXPECT(a.pre == 2 && b.pre == 1 && c.pre == 2);
	/* and is disabled again, the last that is covered */
	unregister_kprobe(&c.kp);
	EXPECT(disable_kprobe(&b.kp) == 0);
	EXPECT((msleep(50), kst_opcode(place(0)) == KST_INT3));
	EXPECT(disable_kprobe(&a.kp) == 0);
	EXPECT(enable_kprobe(&a.kp) == 0);
	EXPECT(enable_kprobe(&b.kp) == 0);
	EXPECT(kst_jump(10) == 16);
	EXPECT(a.pre == 3 && b.pre == 2);
	unregister_kprobe(&b.kp);
	EXPECT(becomes(0, KST_JUMP));
	unregister_kprobe(&a.kp);
	EXPECT(kst_jump(10) == 16);
}

/*
 * The same where the disabled probe was registered before; the probe that wants the jump is
 * disabled and enabled.
 */
static void disabled_neighbour_first(void)
{
	EXPECT(register_kprobe(at(&b, 1, KPROBE_FLAG_DISABLED)) == 0);
	EXPECT(register_kprobe(at(&a, 0, 0)) == 0);
	EXPECT(register_kprobe(at(&c, 2, 0)) == 0);
	msleep(50);
	EXPECT(kst_opcode(place(0)) == KST_INT3);
	EXPECT(disable_kprobe(&a.kp) == 0);
	EXPECT(enable_kprobe(&a.kp) == 0);
	msleep(50);
	EXPECT(kst_opcode(place(0)) == KST_INT3);
	EXPECT(kst_jump(10) == 16);
	EXPECT(a.pre == 1 && b.pre == 0 && c.pre == 1);
	unregister_kprobe(&b.kp);
	msleep(50);
	EXPECT(kst_opcode(place(0)) == KST_INT3);
	unregister_kprobe(&c.kp);
	EXPECT(becomes(0, KST_JUMP));
	EXPECT(kst_jump(10) == 16);
	EXPECT(a.pre == 2);
	unregister_kprobe(&a.kp);
}

static void disabled(void)
{
	kprobe_opcode_t byte = kst_opcode(place(0));

	EXPECT(register_kprobe(at(&a, 0, 0)) == 0);
	EXPECT(becomes(0, KST_JUMP));
	EXPECT(disable_kprobe(&a.kp) == 0);
	EXPECT(becomes(0, byte));
	EXPECT(kst_jump(10) == 16);
	EXPECT(a.pre == 0);
	EXPECT(enable_kprobe(&a.kp) == 0);
	EXPECT(becomes(0, KST_JUMP));
	EXPECT(kst_jump(10) == 16);
	EXPECT(a.pre == 1);
	unregister_kprobe(&a.kp);
}

/*
 * A probe with a post handler is called before and after, regardless of earlier probes.
 */
static void post_joins(void)
{
	EXPECT(register_kprobe(at(&a, 0, 0)) == 0);
	EXPECT(becomes(0, KST_JUMP));
	at(&b, 0, 0)->post_handler = on_post;
	EXPECT(register_kprobe(&b.kp) == 0);
	EXPECT(kst_jump(10) == 16);
	EXPECT(a.pre == 1 && b.pre == 1 && b.post == 1);
	unregister_kprobe(&b.kp);
	EXPECT(becomes(0, KST_JUMP));
	EXPECT(kst_jump(10) == 16);
	EXPECT(a.pre == 2 && b.pre == 1);
	unregister_kprobe(&a.kp);
}

static int go_to_fifth(struct kprobe *p, struct pt_regs *regs)
{
	regs->ip = (unsigned long)place(4);
	regs->ax += 100;
	return 1;
}
NOKPROBE_SYMBOL(go_to_fifth);

static void diverts(void)
{
	at(&a, 0, 0)->pre_handler = go_to_fifth;
	EXPECT(register_kprobe(&a.kp) == 0);
	EXPECT(becomes(0, KST_JUMP));
	EXPECT(kst_jump(10) == 112);
	EXPECT(kst_jump(20) == 122);
	unregister_kprobe(&a.kp);
}

/*
 * As a handler that skips the probed instruction: execution resumes at a displaced instruction,
 * too.
 */
static int skip_first(struct kprobe *p, struct pt_regs *regs)
{
	regs->ip = (unsigned long)place(1);
	return 1;
}
NOKPROBE_SYMBOL(skip_first);

static int skip_second(struct kprobe *p, struct pt_regs *regs)
{
	regs->ip = (unsigned long)place(2);
	return 1;
}
NOKPROBE_SYMBOL(skip_second);

static void skips(void)
{
	at(&a, 0, 0)->pre_handler = skip_first;
	EXPECT(register_kprobe(&a.kp) == 0);
	/* also while it has a breakpoint, and while that waits for the jump */
	for (int i = 0; kst_opcode(place(0)) == KST_INT3 && i < 3000; i++) {
		EXPECT(kst_jump(10) == 15);
		usleep_range(100, 200);
	}
	EXPECT(kst_opcode(place(0)) == KST_JUMP);
	EXPECT(kst_jump(10) == 15);
	unregister_kprobe(&a.kp);
	at(&a, 0, 0)->pre_handler = skip_second;
	EXPECT(register_kprobe(&a.kp) == 0);
	EXPECT(becomes(0, KST_JUMP));
	EXPECT(kst_jump(10) == 14);
	unregister_kprobe(&a.kp);
	EXPECT(kst_jump(10) == 16);
}

PRE_HANDLER(change, regs->ax = 50; regs->flags |= X86_EFLAGS_CF);

static void changes_registers(void)
{
	at(&a, 0, 0)->pre_handler = change;
	EXPECT(register_kprobe(&a.kp) == 0);
	EXPECT(becomes(0, KST_JUMP));
	EXPECT(kst_jump(10) == 56);
	unregister_kprobe(&a.kp);
}

/* A hit in a handler is missed. */
PRE_HANDLER(call_again, container_of(p, struct kst_hit, kp)->pre++; kst_jump(1));

static void nested(void)
{
	at(&a, 0, 0)->pre_handler = call_again;
	EXPECT(register_kprobe(&a.kp) == 0);
	EXPECT(becomes(0, KST_JUMP));
	EXPECT(kst_jump(10) == 16);
	EXPECT(a.pre == 1);
	EXPECT(a.kp.nmissed == 1);
	unregister_kprobe(&a.kp);
}

static unsigned long trace[32];
static unsigned int traced;

PRE_HANDLER(take_trace, traced = stack_trace_save(trace, ARRAY_SIZE(trace), 0));

static noinline unsigned long kst_jump_caller(unsigned long arg)
{
	return kst_jump(arg) + 1;
}

/* Returns true if the trace has an address in that function. */
static bool in_trace(void *function)
{
	for (unsigned int i = 0; i < traced; i++) {
		unsigned long size, offset;
		char name[KSYM_SYMBOL_LEN], wanted[KSYM_SYMBOL_LEN];

		size = sprint_symbol_no_offset(name, trace[i]);
		offset = sprint_symbol_no_offset(wanted, (unsigned long)function);
		if (size == offset && !strcmp(name, wanted))
			return true;
	}
	return false;
}

static void stack_trace(void)
{
	at(&a, 0, 0)->pre_handler = take_trace;
	EXPECT(register_kprobe(&a.kp) == 0);
	EXPECT(becomes(0, KST_JUMP));
	EXPECT(kst_jump_caller(10) == 17);
	EXPECT(in_trace(kst_jump));
	EXPECT(in_trace(kst_jump_caller));
	EXPECT(in_trace(stack_trace));
	unregister_kprobe(&a.kp);
}

/*
 * A detour is new code, which a task may reach without a return from an exception. Every CPU is
 * synchronised before hits resume in it, which is when the probe is reported as optimised. CPUs are
 * synchronised again for the jump, which is not placed yet: this task does not sleep, and RCU tasks
 * waits for it.
 */
static void told(void)
{
	struct kprobe sync;
	unsigned long end;

	if (!kst_count_syncs(&sync))
		return;
	EXPECT(register_kprobe(at(&a, 0, 0)) == 0);
	kst_syncs = 0;
	end = jiffies + 20 * HZ;
	while (!(READ_ONCE(a.kp.flags) & KPROBE_FLAG_OPTIMIZED) && time_before(jiffies, end))
		cpu_relax();
	EXPECT(a.kp.flags & KPROBE_FLAG_OPTIMIZED);
	EXPECT(kst_opcode(place(0)) == KST_INT3);
	EXPECT(kst_syncs > 0);
	EXPECT(becomes(0, KST_JUMP));
	EXPECT(kst_jump(10) == 16);
	EXPECT(a.pre == 1);
	unregister_kprobe(&a.kp);
	unregister_kprobe(&sync);
}

const struct test_case kst_jump_cases[] = {
	{ "jump.hit", hit },
	{ "jump.told", told },
	{ "jump.two", two },
	{ "jump.neighbour", neighbour },
	{ "jump.disabled_neighbour", disabled_neighbour },
	{ "jump.disabled_neighbour_first", disabled_neighbour_first },
	{ "jump.disabled", disabled },
	{ "jump.post_joins", post_joins },
	{ "jump.diverts", diverts },
	{ "jump.skips", skips },
	{ "jump.changes_registers", changes_registers },
	{ "jump.nested", nested },
	{ "jump.stack_trace", stack_trace },
	{}
};
