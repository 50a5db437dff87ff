// SPDX-License-Identifier: GPL-2.0
/*
 * Probed instructions have the same effect as without a probe: as in insn.c, with the forms of
 * form_table.S. A case has those of one name. All are called in some states without a probe; then
 * with a probe that has a pre handler, with a second one that has both, and with the first
 * disabled. All registers, the flags, the stack and the memory are compared.
 */
#include <linux/delay.h>
#include <linux/kconfig.h>
#include <linux/minmax.h>
#include <linux/percpu.h>
#include <linux/preempt.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <asm/processor-flags.h>

#include "jump.h"
#include "rows.h"
#include "forms.h"

/* Handlers of probes run on the stack below the stack pointer. */
#define STACK	8192
/* Bytes above the stack pointer, which are compared. */
#define ABOVE	512

/* Forms that are probed at once. */
#define BATCH	32

/* Required minimum of forms, and of forms that were executed by a jump. */
#define AT_LEAST	2000

/* Forms that get their jumps at once. */
#define JUMPS	512

u8 kst_form_mem[KST_FORM_SIZE] __aligned(64);
DEFINE_PER_CPU_ALIGNED(u8[KST_FORM_SIZE], kst_form_percpu);
static u8 stack[STACK + ABOVE] __aligned(64);

#define FLAGS(cf, pf, af, zf, sf, of, irqs)							\
	((cf) * X86_EFLAGS_CF | (pf) * X86_EFLAGS_PF | (af) * X86_EFLAGS_AF | (zf) * X86_EFLAGS_ZF |	\
	 (sf) * X86_EFLAGS_SF | (of) * X86_EFLAGS_OF | (irqs) * X86_EFLAGS_IF | X86_EFLAGS_FIXED)

static const struct {
	unsigned long flags, ax, cx, dx;
} states[] = {
	{ FLAGS(0, 0, 0, 0, 0, 0, 1), 0x1122334455667788, 0x99aabbccddeeff07, 0x0123456789abcdef },
	{ FLAGS(1, 1, 1, 1, 1, 1, 0), 0, 0, 0 },
	{ FLAGS(1, 0, 0, 0, 1, 0, 1), -1UL, 1, 0x80000000 },
	{ FLAGS(0, 1, 0, 1, 0, 1, 0), 0x7fffffff, 0x8000000000000000, -1UL },
	{ FLAGS(0, 0, 1, 0, 1, 1, 1), 0x8000000000000001, 0x3f, 0xff },
};

struct end {
	struct kst_regs regs;
	u8 way;
	u8 mem[KST_FORM_SIZE];
	u8 percpu[KST_FORM_SIZE];
	u8 stack[ABOVE + 8];
};

/* Of a batch without probes, and the last one with them. */
static struct end (*plain)[ARRAY_SIZE(states)];
static struct end *probed;

static struct kst_regs in;

static void fill(u8 *mem, unsigned int size, unsigned int state)
{
	unsigned int i;

	for (i = 0; i < size; i += 8)
		*(u64 *)(mem + i) = 0x0706050403020181 * (i + 1) + state;
}

/* Has the operand be at @where, or near it; where that is. */
static unsigned long place_operand(const struct kst_form *f, unsigned long where)
{
	unsigned long *gpr = in.gpr, scale = 1UL << f->shift, rest = where - f->displacement;
	bool has_base = f->base != KST_FORM_NONE, has_index = f->index != KST_FORM_NONE;

	if (!has_base && !has_index)
		return where;
	if (f->base == f->index) {
		gpr[f->base] = rest / (1 + scale);
	} else if (!has_base) {
		gpr[f->index] = rest / scale;
	} else {
		if (has_index)
			gpr[f->index] = 3;
		/* A base relative to the stack pointer is brought near it. */
		if (f->base != KST_SP / 8)
			gpr[f->base] = rest - (has_index ? 3 * scale : 0);
	}
	return (has_base ? gpr[f->base] : 0) + (has_index ? gpr[f->index] * scale : 0) + f->displacement;
}

static void set_up(const struct kst_form *f, unsigned int state)
{
	unsigned long *gpr = in.gpr, operand;
	bool is_percpu = f->flags & KST_FORM_PERCPU;
	unsigned int i;

	fill(kst_form_mem, sizeof(kst_form_mem), state);
	fill(*this_cpu_ptr(&kst_form_percpu), KST_FORM_SIZE, state + 1);
	fill(stack + STACK - 64, ABOVE + 64, state + 2);
	for (i = 0; i < 16; i++)
		gpr[i] = 0x0102030405060708UL * (i + 1) ^ ((unsigned long)state << 29);
	gpr[0] = states[state].ax;
	gpr[1] = states[state].cx;
	gpr[2] = states[state].dx;
	gpr[4] = (unsigned long)stack + STACK;
	gpr[5] = (unsigned long)stack + STACK + 64;
	in.flags = states[state].flags;
	if (f->flags & KST_FORM_STRING) {
		gpr[1] = 9;
		gpr[6] = (unsigned long)kst_form_mem + 64;
		gpr[7] = (unsigned long)kst_form_mem + KST_FORM_OPERAND;
	}
	if (f->flags & KST_FORM_DIVIDES) {
		gpr[0] &= 0x7f;
		gpr[2] = 0;
		if (f->reg != KST_FORM_NONE)
			gpr[f->reg] |= 1;
	}
	if (f->flags & KST_FORM_BIT)
		gpr[f->reg] &= 0xff;
	if (f->flags & KST_FORM_TO_REGISTER)
		gpr[f->reg] = (unsigned long)f->other;
	if (f->flags & KST_FORM_TO_STACK)
		*(u8 **)gpr[4] = f->other;
	if (f->flags & KST_FORM_POPS_FLAGS)
		*(unsigned long *)gpr[4] = in.flags ^ (X86_EFLAGS_CF | X86_EFLAGS_ZF | X86_EFLAGS_OF);
	if (!(f->flags & KST_FORM_MEMORY))
		return;
	operand = place_operand(f, is_percpu ? (unsigned long)&kst_form_percpu :
					       (unsigned long)kst_form_mem + KST_FORM_OPERAND);
	if (f->flags & KST_FORM_TO_MEMORY)
		*(u8 **)operand = f->other;
	if ((f->flags & KST_FORM_DIVIDES) && !is_percpu)
		*(u8 *)operand |= 1;
}

static void call(const struct kst_form *f, unsigned int state, struct end *end)
{
	unsigned long low = (unsigned long)stack + sizeof(stack) - sizeof(end->stack), from;

	memset(end, 0, sizeof(*end));
	memset(&kst_seen, 0, sizeof(kst_seen));
	preempt_disable();
	set_up(f, state);
	/* there is a NOP before each */
	kst_call(&in, &end->regs, f->at - 1);
	end->way = kst_way;
	memcpy(end->mem, kst_form_mem, sizeof(end->mem));
	memcpy(end->percpu, *this_cpu_ptr(&kst_form_percpu), sizeof(end->percpu));
	from = end->regs.gpr[4];
	/* QEMU may leave RF behind after an interrupt, and mainline's engine pushes it then. */
	if (f->flags & KST_FORM_PUSHES_FLAGS)
		*(unsigned long *)from &= ~X86_EFLAGS_RF;
	if (f->flags & KST_FORM_MOVES_STACK)
		from = max(from, in.gpr[4]);
	if (from >= low && from <= low + sizeof(end->stack))
		memcpy(end->stack + (from - low), (void *)from, low + sizeof(end->stack) - from);
	preempt_enable();
}

/*
 * Returns true if @f ends as without a probe, and @pre pre handlers and @post post handlers have
 * seen the right state.
 */
static bool check(const struct kst_form *f, unsigned int state, const struct end *want, unsigned int pre,
		  unsigned int post)
{
	bool ok = true;

	call(f, state, probed);
	ok &= EXPECT_EQ(kst_seen.pre, pre);
	ok &= EXPECT_EQ(kst_seen.post, post);
	ok &= EXPECT_EQ(kst_seen.late, 0);
	ok &= EXPECT_EQ(kst_seen.pre_ip, (unsigned long)f->at + 1);
	ok &= EXPECT(kst_same_regs("pre handler", &in, &kst_seen.pre_regs, 0));
	if (post && !(f->flags & KST_FORM_JUMPS)) {
		ok &= EXPECT_EQ(kst_seen.post_ip, (unsigned long)f->end);
		ok &= EXPECT(kst_same_regs("post handler", &want->regs, &kst_seen.post_regs, 0));
	}
	ok &= EXPECT_EQ(probed->way, want->way);
	ok &= EXPECT(kst_same_regs("end", &want->regs, &probed->regs, 0));
	ok &= EXPECT(kst_same_bytes("memory", want->mem, probed->mem, sizeof(want->mem)));
	ok &= EXPECT(kst_same_bytes("per-CPU memory", want->percpu, probed->percpu, sizeof(want->percpu)));
	ok &= EXPECT(kst_same_bytes("stack", want->stack, probed->stack, sizeof(want->stack)));
	return ok;
}

static void call_all(const struct kst_form *f, unsigned int count, const char *way, unsigned int pre, unsigned int post)
{
	unsigned int i, state;

	for (i = 0; i < count; i++)
		for (state = 0; state < ARRAY_SIZE(states); state++)
			if (!check(&f[i], state, &plain[i][state], pre, post)) {
				case_say("%s, state %u, bytes after the first: %*ph\n", way, state,
					(int)(f[i].end - f[i].at) - 1, f[i].at + 1);
				break;
			}
}

static void run_batch(const struct kst_form *f, unsigned int count)
{
	static struct kprobe a[BATCH], b[BATCH];
	struct kprobe *list_a[BATCH], *list_b[BATCH];
	unsigned int i, state;

	for (i = 0; i < count; i++) {
		for (state = 0; state < ARRAY_SIZE(states); state++)
			call(&f[i], state, &plain[i][state]);
		a[i] = (struct kprobe){ .addr = f[i].at, .pre_handler = kst_on_pre };
		b[i] = (struct kprobe){ .addr = f[i].at, .pre_handler = kst_on_pre, .post_handler = kst_on_post };
		list_a[i] = &a[i];
		list_b[i] = &b[i];
	}
	if (!EXPECT_EQ(register_kprobes(list_a, count), 0))
		return;
	call_all(f, count, "pre", 1, 0);
	if (EXPECT_EQ(register_kprobes(list_b, count), 0)) {
		call_all(f, count, "two probes", 2, 1);
		for (i = 0; i < count; i++)
			EXPECT_EQ(disable_kprobe(&a[i]), 0);
		call_all(f, count, "pre and post, and one that is disabled", 1, 1);
		unregister_kprobes(list_b, count);
	}
	unregister_kprobes(list_a, count);
	for (i = 0; i < count; i++)
		EXPECT_EQ(a[i].nmissed + b[i].nmissed, 0);
}

/* The name of the @index-th group. */
const char *kst_form_group(unsigned int index)
{
	const struct kst_form *f;

	for (f = kst_forms; f < kst_forms_end; f++)
		if ((f == kst_forms || strcmp(f->group, f[-1].group)) && !index--)
			return f->group;
	return NULL;
}

/* Runs the forms of a group. */
void kst_forms_run(unsigned int index)
{
	const char *group = kst_form_group(index);
	const struct kst_form *f = kst_forms, *end;
	unsigned int count = 0;

	plain = kvcalloc(BATCH + 1, sizeof(*plain), GFP_KERNEL);
	if (!EXPECT(plain))
		return;
	probed = plain[BATCH];
	while (f < kst_forms_end && strcmp(f->group, group))
		f++;
	for (end = f; end < kst_forms_end && !strcmp(end->group, group); end++)
		count++;
	for (; f < end; f += min_t(unsigned int, BATCH, end - f))
		run_batch(f, min_t(unsigned int, BATCH, end - f));
	case_say("%u forms\n", count);
	kvfree(plain);
}

/* Some forms, of all groups, with two probes for each. */
struct some {
	const struct kst_form *forms[JUMPS];
	struct kprobe a[JUMPS], b[JUMPS], *list[JUMPS];
	unsigned int count;
};

static bool is_jump(const struct kst_form *f)
{
	return kst_opcode(f->at) == KST_JUMP;
}

/*
 * Waits until no jump has been placed for half a second (with our engine, after the first). Returns
 * their number.
 */
static unsigned int wait_for_jumps(const struct some *some)
{
	unsigned int i, now = 0, before, quiet = 0, tries;
	bool pending;

	for (tries = 0; tries < 3000 && quiet < 25; tries++) {
		before = now;
		msleep(20);
		pending = false;
		for (i = now = 0; i < some->count; i++) {
			now += is_jump(some->forms[i]);
			pending |= !is_jump(some->forms[i]) && (some->a[i].flags & KPROBE_FLAG_OPTIMIZED);
		}
		if (!now && IS_ENABLED(CONFIG_KPROBES_ENGINE_RUST))
			continue;
		quiet = now == before && !pending ? quiet + 1 : 0;
	}
	return now;
}

/* Calls all in all states. How many were hit by way of a jump. */
static unsigned int call_some(const struct some *some, const char *way, unsigned int pre, unsigned int post)
{
	unsigned int i, state, met = 0, there = wait_for_jumps(some);

	for (i = 0; i < some->count; i++) {
		const struct kst_form *f = some->forms[i];
		bool jump = is_jump(f);
		const char *by = jump ? "jump" : "breakpoint";

		for (state = 0; state < ARRAY_SIZE(states); state++)
			if (!check(f, state, &plain[i][state], pre, post)) {
				case_say("%s, %s, %s, state %u, bytes after the first: %*ph\n", way,
					 by, f->group, state, (int)(f->end - f->at) - 1, f->at + 1);
				break;
			}
		met += jump && is_jump(f);
	}
	EXPECT_EQ(met, there);
	return met;
}

/* All, or every so many: where cases under load are short, and with the C engine. */
static unsigned int each_form(void)
{
	if (!IS_ENABLED(CONFIG_KPROBES_ENGINE_RUST))
		return 16;
	if (case_ms < 1000)
		return 4;
	return 1;
}

/*
 * Calls the next forms without probes, and registers a probe at each. The C engine refuses some (insn.c), and dies of forms.nop_14;
 * a probe of its own costs it a tenth of a second.
 */
static const struct kst_form *take_some(struct some *some, const struct kst_form *f)
{
	const bool rust = IS_ENABLED(CONFIG_KPROBES_ENGINE_RUST);
	unsigned int state;

	for (some->count = 0; f < kst_forms_end && some->count < JUMPS; f += each_form()) {
		struct kprobe *kp = &some->a[some->count];

		if (!rust && f->end - f->at > 13)
			continue;
		for (state = 0; state < ARRAY_SIZE(states); state++)
			call(f, state, &plain[some->count][state]);
		*kp = (struct kprobe){ .addr = f->at, .pre_handler = kst_on_pre };
		if (!rust && register_kprobe(kp))
			continue;
		some->list[some->count] = kp;
		some->forms[some->count++] = f;
	}
	if (rust)
		EXPECT_EQ(register_kprobes(some->list, some->count), 0);
	return f;
}

/* Calls them with a second probe at each. How many were hit by way of a jump. */
static unsigned int with_second(struct some *some, const char *way, kprobe_post_handler_t post)
{
	struct kprobe **list = kcalloc(some->count, sizeof(*list), GFP_KERNEL);
	unsigned int i, met = 0;

	if (!EXPECT(list))
		return 0;
	for (i = 0; i < some->count; i++) {
		some->b[i] = (struct kprobe){
			.addr = some->forms[i]->at, .pre_handler = kst_on_pre, .post_handler = post,
		};
		list[i] = &some->b[i];
	}
	if (EXPECT_EQ(register_kprobes(list, some->count), 0)) {
		met = call_some(some, way, 2, post ? 1 : 0);
		unregister_kprobes(list, some->count);
	}
	for (i = 0; i < some->count; i++)
		EXPECT_EQ(some->b[i].nmissed, 0);
	kfree(list);
	return met;
}

/* As kst_forms_run(), with jumps, for all groups: with one probe, with two, and with one that has a post handler. */
static void by_jumps(void)
{
	unsigned int forms = 0, one = 0, two = 0, post = 0, i;
	struct some *some = kvzalloc(sizeof(*some), GFP_KERNEL);
	const struct kst_form *f = kst_forms;

	plain = kvcalloc(JUMPS + 1, sizeof(*plain), GFP_KERNEL);
	if (!EXPECT(plain && some))
		goto out;
	probed = plain[JUMPS];
	while (f < kst_forms_end) {
		f = take_some(some, f);
		one += call_some(some, "pre", 1, 0);
		two += with_second(some, "two probes", NULL);
		post += with_second(some, "pre and post", kst_on_post);
		unregister_kprobes(some->list, some->count);
		for (i = 0; i < some->count; i++)
			EXPECT_EQ(some->a[i].nmissed, 0);
		forms += some->count;
	}
	case_say("%u forms, by way of a jump: %u, with two probes %u, with a post handler %u\n", forms, one, two, post);
	if (IS_ENABLED(CONFIG_KPROBES_ENGINE_RUST)) {
		EXPECT(one >= AT_LEAST / each_form());
		EXPECT(two >= AT_LEAST / each_form());
		EXPECT(post >= AT_LEAST / each_form());
	} else {
		EXPECT(one >= forms / 4);
	}
out:
	kvfree(plain);
	kvfree(some);
}

static void enough(void)
{
	long count = kst_forms_end - kst_forms;

	EXPECT(count >= AT_LEAST);
	case_say("%ld forms of the kernel's instructions\n", count);
}

const struct test_case kst_forms_cases[] = {
	{ "forms.enough", enough },
	{ "jump.forms", by_jumps },
	{ }
};
