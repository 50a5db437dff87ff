// SPDX-License-Identifier: GPL-2.0
/*
 * Jumps for probes with post handlers, and conditions for jumps outside the kernel's code: where
 * RCU does not watch, the stack, and other writers of code. run.sh enables jumps for cases of this
 * name.
 */
#include <linux/context_tracking.h>
#include <linux/delay.h>
#include <linux/moduleparam.h>
#include <linux/preempt.h>
#include <linux/ptrace.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>

#include "jump.h"
#include "jump_around.h"
#include "kprobes_selftest.h"

/* CF, PF, ZF, SF, OF: AF is not defined after some. */
#define FLAGS 0x8c5

struct around {
	struct kprobe kp;
	const struct kst_around_place *place;
	unsigned int pre, post;
	unsigned long pre_ip, post_ip, post_flags;
};

/*
 * The C engine places no jump for a probe with a post handler, and checks none of the conditions
 * tested here.
 */
static bool is_mainline(void)
{
	if (IS_ENABLED(CONFIG_KPROBES_ENGINE_C))
		case_skip("not with the C engine");
	return IS_ENABLED(CONFIG_KPROBES_ENGINE_C);
}

static struct around *around_of(struct kprobe *p)
{
	return container_of(p, struct around, kp);
}

PRE_HANDLER(on_pre, around_of(p)->pre++; around_of(p)->pre_ip = regs->ip);
POST_HANDLER(on_post, around_of(p)->post++; around_of(p)->post_ip = regs->ip; around_of(p)->post_flags = regs->flags);

static unsigned int places(void)
{
	return kst_around_end - kst_around;
}

static const long values[][2] = {
	{ 5, 3 }, { 3, 5 }, { 4, 4 }, { -1, 1 }, { 0x7fffffffffffffff, 2 }, { 0x80000000, 0x80000000 }, { 0, -1 },
};

/* Returns true if the instruction may be followed by another one than the next. */
static bool branches(const struct around *a)
{
	return !strncmp(a->place->insn, "call", 4) || a->place->insn[0] == 'j';
}

/* Compares the function's results with @want, and expects that both handlers are called. */
static void compare(struct around *a, const struct kst_pair *want)
{
	for (unsigned int i = 0; i < ARRAY_SIZE(values); i++) {
		unsigned int pre = a->pre, post = a->post;
		struct kst_pair is = kst_call_around(a->place, values[i][0], values[i][1]);
		bool same = is.value == want[i].value && !((is.flags ^ want[i].flags) & FLAGS) &&
			    a->pre == pre + 1 && a->post == post + 1 && a->post_ip == (unsigned long)a->place->next &&
			    !((a->post_flags ^ is.flags) & FLAGS) && is.flags & X86_EFLAGS_IF;

		if (!same && !branches(a))
			case_say("%s with %ld, %ld: %ld not %ld, flags %lx not %lx, after it %lx, handlers %u, %u\n", a->place->insn,
				 values[i][0], values[i][1], is.value, want[i].value, is.flags, want[i].flags, a->post_flags,
				 a->pre - pre, a->post - post);
		EXPECT(same || branches(a));
		EXPECT_EQ(is.value, want[i].value);
	}
}

/* Each instruction, with a breakpoint and with a jump. */
static void each(void)
{
	struct kst_pair (*want)[ARRAY_SIZE(values)];
	unsigned int count = places(), jumps = 0;
	struct kprobe **list;
	struct around *all;

	if (is_mainline())
		return;
	all = kcalloc(count, sizeof(*all), GFP_KERNEL);
	list = kcalloc(count, sizeof(*list), GFP_KERNEL);
	want = kcalloc(count, sizeof(*want), GFP_KERNEL);
	if (!EXPECT(all && list && want))
		goto out;
	for (unsigned int i = 0; i < count; i++) {
		all[i].place = &kst_around[i];
		all[i].kp = (struct kprobe){ .addr = kst_around[i].at, .pre_handler = on_pre, .post_handler = on_post };
		list[i] = &all[i].kp;
		for (unsigned int v = 0; v < ARRAY_SIZE(values); v++)
			want[i][v] = kst_call_around(&kst_around[i], values[v][0], values[v][1]);
	}
	if (!EXPECT_EQ(register_kprobes(list, count), 0))
		goto out;
	for (unsigned int i = 0; i < count; i++)
		compare(&all[i], want[i]);
	for (unsigned int i = 0; i < count; i++) {
		if (!EXPECT(kst_becomes(kst_around[i].at, KST_JUMP)))
			case_say("no jump at %s\n", kst_around[i].insn);
		else
			jumps++;
	}
	EXPECT_EQ(jumps, count);
	for (unsigned int i = 0; i < count; i++)
		compare(&all[i], want[i]);
	unregister_kprobes(list, count);
	for (unsigned int i = 0; i < count; i++)
		EXPECT_EQ(kst_call_around(&kst_around[i], 5, 3).value, want[i][0].value);
out:
	kfree(all);
	kfree(list);
	kfree(want);
}

static struct around a, b;

static int add_one(struct kprobe *p, struct pt_regs *regs)
{
	regs->cx++;
	return 0;
}
NOKPROBE_SYMBOL(add_one);

POST_HANDLER(add_hundred, regs->ax += 100);

static struct kprobe *at(struct around *around, const struct kst_around_place *place)
{
	*around = (struct around){
		.place = place, .kp = { .addr = place->at, .pre_handler = on_pre, .post_handler = on_post },
	};
	return &around->kp;
}

/*
 * The instruction sees the registers as changed by the pre handler, and the post handler changes
 * its result.
 */
static void changes(void)
{
	const struct kst_around_place *mov = &kst_around[0];

	if (is_mainline())
		return;
	at(&a, mov)->pre_handler = add_one;
	a.kp.post_handler = add_hundred;
	EXPECT(register_kprobe(&a.kp) == 0);
	EXPECT(kst_becomes(mov->at, KST_JUMP));
	EXPECT_EQ(kst_call_around(mov, 1, 7).value, 108);
	unregister_kprobe(&a.kp);
	EXPECT_EQ(kst_call_around(mov, 1, 7).value, 7);
}

POST_HANDLER(lead_astray, regs->ip = around_of(p)->post++ % 2 ? (unsigned long)around_of(p)->place->next : 1);

/*
 * A branch reaches its target: the post handler cannot change the instruction pointer.
 */
static void astray(void)
{
	if (is_mainline())
		return;
	for (unsigned int i = 0; i < places(); i++) {
		const struct kst_around_place *place = &kst_around[i];
		long equal, other;

		if (place->insn[0] != 'j')
			continue;
		equal = kst_call_around(place, 3, 3).value;
		other = kst_call_around(place, 5, 3).value;
		at(&a, place)->post_handler = lead_astray;
		EXPECT(register_kprobe(&a.kp) == 0);
		EXPECT(kst_becomes(place->at, KST_JUMP));
		for (int n = 0; n < 2; n++) {
			EXPECT_EQ(kst_call_around(place, 3, 3).value, equal);
			EXPECT_EQ(kst_call_around(place, 3, 3).value, equal);
			EXPECT_EQ(kst_call_around(place, 5, 3).value, other);
			EXPECT_EQ(kst_call_around(place, 5, 3).value, other);
		}
		EXPECT(a.post == 8);
		unregister_kprobe(&a.kp);
	}
}

/*
 * Each of several probes at a branch is called after it, whether or not it is taken, and sees the
 * same state.
 */
static void two_at_branches(void)
{
	if (is_mainline())
		return;
	for (unsigned int i = 0; i < places(); i++) {
		const struct kst_around_place *place = &kst_around[i];
		long equal, other;

		if (place->insn[0] != 'j')
			continue;
		equal = kst_call_around(place, 3, 3).value;
		other = kst_call_around(place, 5, 3).value;
		EXPECT(register_kprobe(at(&a, place)) == 0);
		EXPECT(register_kprobe(at(&b, place)) == 0);
		EXPECT(kst_becomes(place->at, KST_JUMP));
		EXPECT_EQ(kst_call_around(place, 3, 3).value, equal);
		EXPECT(a.post == 1 && b.post == 1 && a.post_ip == b.post_ip);
		EXPECT_EQ(kst_call_around(place, 5, 3).value, other);
		EXPECT(a.post == 2 && b.post == 2 && a.post_ip == b.post_ip);
		EXPECT(a.pre == 2 && b.pre == 2 && a.kp.nmissed + b.kp.nmissed == 0);
		unregister_kprobe(&b.kp);
		unregister_kprobe(&a.kp);
	}
}

/*
 * One probe of each kind at a place: whichever is registered or unregistered, the handlers of both
 * are called, and a jump is placed again.
 */
static void joins(void)
{
	const struct kst_around_place *mov = &kst_around[0];

	if (is_mainline())
		return;
	at(&a, mov)->post_handler = NULL;
	EXPECT(register_kprobe(&a.kp) == 0);
	EXPECT(kst_becomes(mov->at, KST_JUMP));
	EXPECT(register_kprobe(at(&b, mov)) == 0);
	EXPECT(kst_opcode(mov->at) == KST_INT3);
	EXPECT_EQ(kst_call_around(mov, 1, 7).value, 7);
	EXPECT(kst_becomes(mov->at, KST_JUMP));
	EXPECT_EQ(kst_call_around(mov, 1, 8).value, 8);
	EXPECT(a.pre == 2 && b.pre == 2 && b.post == 2 && a.post == 0);
	EXPECT(disable_kprobe(&a.kp) == 0);
	EXPECT_EQ(kst_call_around(mov, 1, 8).value, 8);
	EXPECT(a.pre == 2 && b.pre == 3 && b.post == 3);
	EXPECT(enable_kprobe(&a.kp) == 0);
	unregister_kprobe(&b.kp);
	EXPECT_EQ(kst_call_around(mov, 1, 9).value, 9);
	EXPECT(kst_becomes(mov->at, KST_JUMP));
	EXPECT_EQ(kst_call_around(mov, 1, 9).value, 9);
	EXPECT(a.pre == 4 && b.pre == 3 && b.post == 3);
	unregister_kprobe(&a.kp);
}

PRE_HANDLER(call_again, around_of(p)->pre++; kst_call_around(around_of(p)->place, 1, 2));

/* A hit in a handler is missed, and the instruction executed. */
static void nested(void)
{
	if (is_mainline())
		return;
	for (unsigned int i = 0; i < places(); i += places() - 1) {
		const struct kst_around_place *place = &kst_around[i];
		long want = kst_call_around(place, 5, 3).value;

		at(&a, place)->pre_handler = call_again;
		EXPECT(register_kprobe(&a.kp) == 0);
		EXPECT(kst_becomes(place->at, KST_JUMP));
		EXPECT_EQ(kst_call_around(place, 5, 3).value, want);
		EXPECT(a.pre == 1 && a.post == 1 && a.kp.nmissed == 1);
		unregister_kprobe(&a.kp);
	}
}

static bool watching;

PRE_HANDLER(look, around_of(p)->pre++; watching &= rcu_is_watching());
POST_HANDLER(look_after, around_of(p)->post++; watching &= rcu_is_watching());

/* A handler may use data that RCU protects, regardless of its caller. */
static void unwatched(void)
{
	if (is_mainline())
		return;
	for (int posts = 0; posts < 2; posts++) {
		const struct kst_around_place *mov = &kst_around[0];
		unsigned long flags;
		long value;

		at(&a, mov)->pre_handler = look;
		a.kp.post_handler = posts ? look_after : NULL;
		EXPECT(register_kprobe(&a.kp) == 0);
		EXPECT(kst_becomes(mov->at, KST_JUMP));
		watching = true;
		preempt_disable();
		local_irq_save(flags);
		ct_idle_enter();
		value = kst_call_around(mov, 1, 7).value;
		ct_idle_exit();
		local_irq_restore(flags);
		preempt_enable();
		EXPECT_EQ(value, 7);
		EXPECT(a.pre == 1 && a.post == posts);
		EXPECT(watching);
		EXPECT_EQ(kst_call_around(mov, 1, 8).value, 8);
		EXPECT(a.pre == 2 && a.post == 2 * posts);
		unregister_kprobe(&a.kp);
	}
}

/* As one does that has a function called: three words on the stack, the last of them where that returns to. */
static noinline __naked void takes_three(void)
{
	asm volatile("popq %rdx\n\t"
		     "popq %rax\n\t"
		     "popq %rcx\n\t"
		     "leaq (%rax,%rcx), %rax\n\t"
		     "jmp *%rdx");
}

static int push_three(struct kprobe *p, struct pt_regs *regs)
{
	unsigned long *sp = (unsigned long *)regs->sp;

	*--sp = 1000;
	*--sp = 200;
	/* Behind the bytes that a jump covers. */
	*--sp = (unsigned long)around_of(p)->place->next + 5;
	regs->sp = (unsigned long)sp;
	regs->ip = (unsigned long)takes_three;
	return 1;
}
NOKPROBE_SYMBOL(push_three);

/* A handler pushes, as it may at a breakpoint, and resumes elsewhere. */
static void pushes(void)
{
	const struct kst_around_place *mov = &kst_around[0];

	if (is_mainline())
		return;
	for (int posts = 0; posts < 2; posts++) {
		at(&a, mov)->pre_handler = push_three;
		a.kp.post_handler = posts ? on_post : NULL;
		EXPECT(register_kprobe(&a.kp) == 0);
		EXPECT_EQ(kst_call_around(mov, 1, 7).value, 1200);
		EXPECT(kst_becomes(mov->at, KST_JUMP));
		EXPECT_EQ(kst_call_around(mov, 1, 7).value, 1200);
		EXPECT(a.post == 0);
		unregister_kprobe(&a.kp);
	}
}

/* run.sh says where it is. */
static unsigned long text_poke_copy_is;
module_param_named(text_poke_copy, text_poke_copy_is, ulong, 0);

void kst_poke(void *at, u8 byte)
{
	((void *(*)(void *, const void *, size_t))text_poke_copy_is)(at, &byte, 1);
}

/* Writes there, as a debugger does, while the jump is due, and restores the byte. */
static void changed_before(void)
{
	const struct kst_around_place *mov = &kst_around[0];
	u8 *byte = mov->next;
	unsigned long until;
	u8 was = *byte;

	if (is_mainline())
		return;
	EXPECT(register_kprobe(at(&a, mov)) == 0);
	/*
	 * The engine finds that there can be a jump, but places it only after all tasks have slept:
	 * this one must not sleep now.
	 */
	until = jiffies + 10 * HZ;
	while (!(READ_ONCE(a.kp.flags) & KPROBE_FLAG_OPTIMIZED) && time_before(jiffies, until))
		cpu_relax();
	if (EXPECT(READ_ONCE(a.kp.flags) & KPROBE_FLAG_OPTIMIZED) && EXPECT(kst_opcode(mov->at) == KST_INT3))
		kst_poke(byte, KST_INT3);
	for (int i = 0; i < 10000 && READ_ONCE(a.kp.flags) & KPROBE_FLAG_OPTIMIZED; i++)
		usleep_range(900, 1100);
	EXPECT(kst_opcode(mov->at) == KST_INT3);
	if (EXPECT(kst_opcode(byte) == KST_INT3))
		kst_poke(byte, was);
	EXPECT_EQ(kst_call_around(mov, 1, 7).value, 7);
	EXPECT(a.pre == 1 && a.post == 1);
	unregister_kprobe(&a.kp);
}

/*
 * The same while the jump is in place: it cannot be removed, and is still there after the debugger
 * has restored the byte.
 */
static void changed_there(void)
{
	const struct kst_around_place *mov = &kst_around[0];
	u8 was = kst_opcode(mov->at);

	if (is_mainline())
		return;
	EXPECT(register_kprobe(at(&a, mov)) == 0);
	EXPECT(kst_becomes(mov->at, KST_JUMP));
	kst_poke(mov->at, KST_INT3);
	unregister_kprobe(&a.kp);
	/* Soon after that it would be taken away. */
	msleep(300);
	EXPECT(kst_opcode(mov->at) == KST_INT3);
	kst_poke(mov->at, KST_JUMP);
	EXPECT_EQ(kst_call_around(mov, 1, 7).value, 7);
	EXPECT(a.pre == 0 && a.post == 0);
	/* A probe there uses it, and takes it away. */
	EXPECT(register_kprobe(at(&b, mov)) == 0);
	EXPECT_EQ(kst_call_around(mov, 1, 7).value, 7);
	EXPECT(b.pre == 1 && b.post == 1);
	unregister_kprobe(&b.kp);
	EXPECT(kst_becomes(mov->at, was));
	EXPECT_EQ(kst_call_around(mov, 1, 7).value, 7);
}

/*
 * A batch in the way of that probe and of another is refused, and the jump of the other is placed
 * again.
 */
static void changed_in_a_batch(void)
{
	const struct kst_around_place *mov = &kst_around[0], *other = mov + 1;
	struct kprobe within[2] = {}, *list[2] = { &within[0], &within[1] };

	if (is_mainline())
		return;
	within[0].addr = other->next;
	within[1].addr = mov->next;
	EXPECT(register_kprobe(at(&a, mov)) == 0);
	EXPECT(register_kprobe(at(&b, other)) == 0);
	EXPECT(kst_becomes(mov->at, KST_JUMP));
	EXPECT(kst_becomes(other->at, KST_JUMP));
	kst_poke(mov->at, KST_INT3);
	EXPECT_EQ(register_kprobes(list, 2), -EILSEQ);
	EXPECT(kst_becomes(other->at, KST_JUMP));
	kst_poke(mov->at, KST_JUMP);
	EXPECT_EQ(kst_call_around(mov, 1, 7).value, 7);
	EXPECT_EQ(kst_call_around(other, 1, 7).value, 7);
	EXPECT(a.pre == 1 && a.post == 1 && b.pre == 1 && b.post == 1);
	unregister_kprobe(&a.kp);
	unregister_kprobe(&b.kp);
}

/*
 * The jump of an unregistered probe calls no handler, and is removed later; until then the next
 * probe there reuses it.
 */
static void idle(void)
{
	const struct kst_around_place *mov = &kst_around[0];
	u8 was = kst_opcode(mov->at);

	if (is_mainline())
		return;
	for (int i = 0; i < 20; i++) {
		EXPECT(register_kprobe(at(&a, mov)) == 0);
		EXPECT(kst_becomes(mov->at, KST_JUMP));
		unregister_kprobe(&a.kp);
		EXPECT_EQ(kst_call_around(mov, 1, 7).value, 7);
		EXPECT(a.pre == 0 && a.post == 0);
		/* Without one handler, and disabled, mostly before the jump is removed. */
		at(&b, mov)->post_handler = NULL;
		if (i % 4 == 1)
			b.kp.flags = KPROBE_FLAG_DISABLED;
		EXPECT(register_kprobe(&b.kp) == 0);
		EXPECT_EQ(kst_call_around(mov, 1, 7).value, 7);
		EXPECT(b.pre == (i % 4 != 1) && b.post == 0);
		if (i % 4 == 2) {
			EXPECT(register_kprobe(at(&a, mov)) == 0);
			EXPECT_EQ(kst_call_around(mov, 1, 7).value, 7);
			EXPECT(a.pre == 1 && a.post == 1 && b.pre == 2);
			unregister_kprobe(&a.kp);
		}
		unregister_kprobe(&b.kp);
		if (i % 2)
			continue;
		EXPECT(kst_becomes(mov->at, was));
		/* The engine no longer has it registered. */
		EXPECT(enable_kprobe(&a.kp) == -EINVAL);
	}
	EXPECT(kst_becomes(mov->at, was));
}

const struct test_case kst_jump_around_cases[] = {
	{ "jump.around_each", each },
	{ "jump.around_changes", changes },
	{ "jump.around_astray", astray },
	{ "jump.around_two", two_at_branches },
	{ "jump.around_joins", joins },
	{ "jump.around_nested", nested },
	{ "jump.unwatched", unwatched },
	{ "jump.pushes", pushes },
	{ "jump.changed_before", changed_before },
	{ "jump.changed_there", changed_there },
	{ "jump.changed_in_a_batch", changed_in_a_batch },
	{ "jump.idle", idle },
	{}
};
