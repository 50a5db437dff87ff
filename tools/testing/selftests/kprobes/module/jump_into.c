// SPDX-License-Identifier: GPL-2.0
/*
 * Places that a jump must not cover, since code jumps into the covered bytes: there the breakpoint
 * stays, and the function works as before. Elsewhere in the same function, a jump may be placed.
 */
#include <linux/jump_label.h>
#include <linux/linkage.h>
#include <linux/mm_types.h>
#include <linux/ptrace.h>
#include <linux/sched.h>
#include <linux/static_call.h>
#include <linux/uaccess.h>
#include <asm/text-patching.h>

#include "jump.h"

static struct kst_hit a;

/* Registers a probe that stays a breakpoint, or one that gets a jump. */
static bool stays(const void *where)
{
	return EXPECT_EQ(register_kprobe(kst_hit_at(&a, where, 0)), 0) && EXPECT(kst_stays_breakpoint(where));
}

static bool jumps(const void *where)
{
	return EXPECT_EQ(register_kprobe(kst_hit_at(&a, where, 0)), 0) && EXPECT(kst_becomes(where, KST_JUMP));
}

/* Unregisters it; it was hit so often. */
static void ends(unsigned int hits)
{
	EXPECT_EQ(a.pre, hits);
	EXPECT_EQ(a.kp.nmissed, 0);
	unregister_kprobe(&a.kp);
}

static void into_loop(void)
{
	if (stays(kst_places[KST_LOOP_BEFORE])) {
		EXPECT_EQ(kst_into_loop(1), 4);
		EXPECT_EQ(kst_into_loop(5), 12);
	}
	ends(2);
}

/* A loop may go on at the jump. */
static void to_loop(void)
{
	if (jumps(kst_places[KST_LOOP_TARGET]))
		EXPECT_EQ(kst_into_loop(5), 12);
	ends(5);
}

/* The target of the branch back is among the bytes to be displaced. */
static void branches_back(void)
{
	if (jumps(kst_places[KST_LOOP_BRANCH]))
		EXPECT_EQ(kst_into_loop(5), 12);
	ends(5);
}

static void call_switch(void)
{
	unsigned long way;

	for (way = 0; way < 3; way++)
		EXPECT_EQ(kst_into_switch(way), 14 - way);
	EXPECT_EQ(kst_into_switch(3), 0);
}

static void into_switch(void)
{
	if (stays(kst_places[KST_SWITCH_INSIDE]))
		call_switch();
	ends(1);
}

static void after_switch(void)
{
	if (jumps(kst_places[KST_SWITCH_AFTER]))
		call_switch();
	ends(3);
}

/* A kernel address that is not mapped. */
#define NOTHING ((unsigned long *)0xffffeb0000000000)

static void call_fixup(void)
{
	unsigned long value = 70;

	EXPECT_EQ(kst_into_fixup(&value), 70);
	EXPECT_EQ(kst_into_fixup(NOTHING), 3);
}

static void into_fixup(void)
{
	if (stays(kst_places[KST_FIXUP_BEFORE]))
		call_fixup();
	ends(0);
}

/* The instruction that faults is looked up by its address. */
static void faults(void)
{
	if (stays(kst_places[KST_FIXUP_FAULTS]))
		call_fixup();
	ends(2);
}

/* A fault resumes at the jump. */
static void to_fixup(void)
{
	if (jumps(kst_places[KST_FIXUP_TARGET]))
		call_fixup();
	ends(1);
}

/* The branch that leads there is behind a label, which ends the symbol. */
static void into_label(void)
{
	if (stays(kst_places[KST_LABEL_BEFORE])) {
		EXPECT_EQ(kst_into_label(0), 4);
		EXPECT_EQ(kst_into_label(3), 13);
	}
	ends(2);
}

DEFINE_STATIC_KEY_FALSE(kst_into_key_on);

/*
 * @a + 3, or with the key @a + 102: its branch leads to an unlikely part, which returns to the
 * second instruction that a jump at the first one would displace.
 */
unsigned long kst_into_key(unsigned long a);
extern u8 * const kst_key_places[];
enum { KEY_BRANCH, KEY_BEFORE };

asm("	.pushsection .text, \"ax\"\n"
	"	.balign	16\n"
	"	.globl	kst_into_key\n"
	"	.type	kst_into_key, @function\n"
	"kst_into_key:\n"
	"	mov	%edi, %eax\n"
	".Lkst_key_branch:\n"
	ARCH_STATIC_BRANCH_ASM("kst_into_key_on", "kst_into_key.cold") "\n"
	".Lkst_key_before:\n"
	"	inc	%eax\n"
	".Lkst_key_inside:\n"
	"	inc	%eax\n"
	"	inc	%eax\n"
	"	" ASM_RET
	"	.size	kst_into_key, . - kst_into_key\n"
	"	.popsection\n"
	"	.pushsection .text.unlikely, \"ax\"\n"
	"	.type	kst_into_key.cold, @function\n"
	"kst_into_key.cold:\n"
	"	add	$100, %eax\n"
	"	jmp	.Lkst_key_inside\n"
	"	.size	kst_into_key.cold, . - kst_into_key.cold\n"
	"	.popsection\n"
	"	.pushsection .rodata, \"a\"\n"
	"	.balign	8\n"
	"	.globl	kst_key_places\n"
	"kst_key_places:\n"
	"	.quad	.Lkst_key_branch, .Lkst_key_before\n"
	"	.popsection\n");

/* With the key off, with it on, and off again. */
static void call_key(void)
{
	EXPECT_EQ(kst_into_key(10), 13);
	static_branch_enable(&kst_into_key_on);
	EXPECT_EQ(kst_into_key(10), 112);
	static_branch_disable(&kst_into_key_on);
	EXPECT_EQ(kst_into_key(10), 13);
}

static void into_key(void)
{
	if (stays(kst_key_places[KEY_BEFORE]))
		call_key();
	ends(2);
	/* The same while the key is on. */
	static_branch_enable(&kst_into_key_on);
	if (stays(kst_key_places[KEY_BEFORE]))
		EXPECT_EQ(kst_into_key(10), 112);
	ends(0);
	static_branch_disable(&kst_into_key_on);
	EXPECT_EQ(kst_into_key(10), 13);
}

DEFINE_STATIC_CALL(kst_into_call, kst_target);

/* The place of the first instruction; static_call_update() writes the second. */
extern u8 * const kst_call_place;

static noinline int before_static_call(int a)
{
	asm volatile("1:	inc	%0\n"
		     "	.pushsection .rodata, \"a\"\n"
		     "	.balign	8\n"
		     "	.globl	kst_call_place\n"
		     "kst_call_place:\n"
		     "	.quad	1b\n"
		     "	.popsection\n"
		     : "+D"(a));
	return static_call(kst_into_call)(a) + 1;
}

static void into_static_call(void)
{
	const u8 *place = kst_call_place;

	if (!EXPECT_EQ(place[2], CALL_INSN_OPCODE))
		return;
	EXPECT_EQ(before_static_call(1), kst_target(2) + 1);
	if (stays(place)) {
		EXPECT_EQ(before_static_call(1), kst_target(2) + 1);
		static_call_update(kst_into_call, kst_target_2);
		EXPECT_EQ(before_static_call(1), kst_target_2(2) + 1);
	}
	ends(2);
	static_call_update(kst_into_call, kst_target);
	EXPECT_EQ(before_static_call(1), kst_target(2) + 1);
}

/* The text that alternatives have written is compared as it is. */
static void has_alternative(void)
{
	if (jumps(kst_places[KST_ALTERNATIVE]))
		EXPECT_EQ(kst_into_alternative(10), 19);
	ends(1);
	EXPECT_EQ(kst_into_alternative(10), 19);
}

/* Code after the end of the flow is entered through a pointer alone. */
static void pointer(void)
{
	EXPECT_EQ(kst_call_code(kst_hidden, 0), 42);
	if (stays(kst_places[KST_HIDES_END])) {
		EXPECT_EQ(kst_hides(1), 2);
		EXPECT_EQ(kst_call_code(kst_hidden, 0), 42);
	}
	ends(1);
}

POST_HANDLER(on_post, container_of(p, struct kst_hit, kp)->post++);

/* Between handlers user memory is accessed as the probed code may, which has set AC; the handlers may not. */
static void of_user(void)
{
	const u32 __user *from = (void __user *)current->mm->arg_start;
	u32 value;

	if (!boot_cpu_has(X86_FEATURE_SMAP)) {
		case_skip("no SMAP");
		return;
	}
	if (!EXPECT_EQ(get_user(value, from), 0))
		return;
	EXPECT_EQ(kst_of_user(from), value);
	kst_hit_at(&a, kst_places[KST_OF_USER], 0)->post_handler = on_post;
	if (!EXPECT_EQ(register_kprobe(&a.kp), 0))
		return;
	EXPECT_EQ(kst_of_user(from), value);
	if (IS_ENABLED(CONFIG_KPROBES_RUST)) {
		EXPECT(kst_becomes(a.kp.addr, KST_JUMP));
		EXPECT_EQ(kst_of_user(from), value);
		EXPECT_EQ(a.post, 2);
		EXPECT(a.flags & X86_EFLAGS_AC);
	}
	unregister_kprobe(&a.kp);
}

const struct test_case kst_jump_into_cases[] = {
	{ "jump.into_loop", into_loop },
	{ "jump.to_loop", to_loop },
	{ "jump.branches_back", branches_back },
	{ "jump.into_switch", into_switch },
	{ "jump.after_switch", after_switch },
	{ "jump.into_fixup", into_fixup },
	{ "jump.faults", faults },
	{ "jump.to_fixup", to_fixup },
	{ "jump.into_label", into_label },
	{ "jump.into_key", into_key },
	{ "jump.into_static_call", into_static_call },
	{ "jump.alternative", has_alternative },
	{ "jump.pointer", pointer },
	{ "jump.of_user", of_user },
	{}
};
