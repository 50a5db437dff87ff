// SPDX-License-Identifier: GPL-2.0
/*
 * Probed instructions have the same effect as without a probe: the rows of rows.S are called in
 * many states, without a probe, with one that has a pre handler, a post handler or both, and with
 * two. All registers, the flags, the stack, the memory and the state that the handlers see are
 * compared.
 */
#include <linux/array_size.h>
#include <linux/minmax.h>
#include <linux/preempt.h>
#include <linux/string.h>
#include <asm/cpufeature.h>
#include <asm/fpu/api.h>
#include <asm/processor-flags.h>

#include "kprobes_selftest.h"
#include "rows.h"

#define STACK	8192
/* Bytes above the row's stack pointer, which are compared. */
#define ABOVE	512

u8 kst_mem[4096] __aligned(64);
static u8 stack[STACK + ABOVE] __aligned(64);

/* A row's end. */
struct end {
	struct kst_regs regs;
	u8 way;
	u8 mem[sizeof(kst_mem)];
	/* Stack above the final stack pointer. */
	u8 stack[ABOVE * 2];
};

struct kst_seen kst_seen;

#define ARITH (X86_EFLAGS_CF | X86_EFLAGS_PF | X86_EFLAGS_AF | X86_EFLAGS_ZF | X86_EFLAGS_SF | X86_EFLAGS_OF)

static const struct {
	unsigned long flags, ax, cx, dx;
} states[] = {
	{ X86_EFLAGS_IF, 0x1122334455667788, 0x99aabbccddeeff00, 0x0123456789abcdef },
	{ 0, 0, 0, 0 },
	{ X86_EFLAGS_IF | X86_EFLAGS_CF, 1, 1, 1 },
	{ X86_EFLAGS_ZF, -1UL, 2, -1UL },
	{ X86_EFLAGS_IF | X86_EFLAGS_SF, 0x8000000000000000, 0x100000001, 0x7fffffffffffffff },
	{ X86_EFLAGS_OF, 0x7fffffff, 0x100000000, 0x80000000 },
	{ X86_EFLAGS_IF | X86_EFLAGS_PF, 0xff, 63, 0x1ff },
	{ ARITH, 0x5555555555555555, 0xaaaaaaaaaaaaaaaa, 3 },
	{ X86_EFLAGS_IF | X86_EFLAGS_SF | X86_EFLAGS_OF, 42, 1, 42 },
	{ X86_EFLAGS_IF | X86_EFLAGS_ZF | X86_EFLAGS_CF, 2, 0xffff0001, 0 },
	{ X86_EFLAGS_ZF, 7, 1, 7 },
};

/* Without a probe, and with one. */
static struct end plain[ARRAY_SIZE(states)], probed;

static void set_up(struct kst_regs *in, unsigned int state)
{
	unsigned int i;

	for (i = 0; i < 16; i++)
		in->gpr[i] = 0x0102030405060708UL * (i + 1) ^ (state << 12);
	in->gpr[0] = states[state].ax;
	in->gpr[1] = states[state].cx;
	in->gpr[2] = states[state].dx;
	in->gpr[4] = (unsigned long)stack + STACK;
	in->gpr[5] = (unsigned long)stack + STACK + 64;
	in->gpr[6] = (unsigned long)kst_mem + 0x200;
	in->gpr[7] = (unsigned long)kst_mem + 0x800;
	in->gpr[14] = (unsigned long)kst_mem + 0x400;
	in->gpr[15] = 3;
	in->flags = states[state].flags | X86_EFLAGS_FIXED;
	for (i = 0; i < sizeof(kst_mem); i++)
		kst_mem[i] = i * 7 + (i >> 8) + state;
	for (i = 0; i < sizeof(stack); i++)
		stack[i] = i * 5 + (i >> 7) + state;
}

static void call(const struct kst_row *row, unsigned int state, struct end *end)
{
	static struct kst_regs in;
	unsigned long top = (unsigned long)stack + sizeof(stack), from;

	memset(end, 0, sizeof(*end));
	memset(&kst_seen, 0, sizeof(kst_seen));
	preempt_disable();
	set_up(&in, state);
	if (row->flags & KST_FPU)
		kernel_fpu_begin();
	kst_call(&in, &end->regs, row->start);
	if (row->flags & KST_FPU)
		kernel_fpu_end();
	end->way = kst_way;
	memcpy(end->mem, kst_mem, sizeof(kst_mem));
	from = end->regs.gpr[4];
	if (from >= top - sizeof(end->stack) && from <= top)
		memcpy(end->stack + sizeof(end->stack) - (top - from), (void *)from, top - from);
	preempt_enable();
	if (row->flags & KST_NO_AX)
		end->regs.gpr[0] = end->regs.gpr[2] = 0;
	if (row->flags & KST_NO_CX)
		end->regs.gpr[1] = 0;
}

static void get_regs(struct kst_regs *to, const struct pt_regs *regs)
{
	*to = (struct kst_regs){
		.gpr = {
			regs->ax, regs->cx, regs->dx, regs->bx, regs->sp, regs->bp, regs->si, regs->di,
			regs->r8, regs->r9, regs->r10, regs->r11, regs->r12, regs->r13, regs->r14, regs->r15,
		},
		.flags = regs->flags & ~X86_EFLAGS_RF,
	};
}
NOKPROBE_SYMBOL(get_regs);

int kst_on_pre(struct kprobe *p, struct pt_regs *regs)
{
	kst_seen.pre++;
	if (kst_seen.post)
		kst_seen.late++;
	kst_seen.pre_ip = regs->ip;
	get_regs(&kst_seen.pre_regs, regs);
	/*
	 * A fault just before the breakpoint leaves RF set, by chance; here it is set each time.
	 * The processor does not store it.
	 */
	regs->flags |= X86_EFLAGS_RF;
	return 0;
}
NOKPROBE_SYMBOL(kst_on_pre);

void kst_on_post(struct kprobe *p, struct pt_regs *regs, unsigned long flags)
{
	kst_seen.post++;
	kst_seen.post_ip = regs->ip;
	kst_seen.post_flags |= flags;
	get_regs(&kst_seen.post_regs, regs);
}
NOKPROBE_SYMBOL(kst_on_post);

static const char * const reg_names[] = {
	"ax", "cx", "dx", "bx", "sp", "bp", "si", "di",
	"r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "flags",
};

/* Returns true if the registers are equal; logs those that differ. */
bool kst_same_regs(const char *what, const struct kst_regs *want, const struct kst_regs *have, unsigned long flags)
{
	bool same = true;
	unsigned int i;

	for (i = 0; i < 17; i++) {
		unsigned long w = i < 16 ? want->gpr[i] : want->flags;
		unsigned long h = i < 16 ? have->gpr[i] : have->flags;

		if (((flags & KST_NO_AX) && (i == 0 || i == 2)) || ((flags & KST_NO_CX) && i == 1))
			continue;
		if (w == h)
			continue;
		case_say("%s: %s is %lx, not %lx\n", what, reg_names[i], h, w);
		same = false;
	}
	return same;
}

bool kst_same_bytes(const char *what, const u8 *want, const u8 *have, unsigned int size)
{
	unsigned int i;

	for (i = 0; i < size; i++)
		if (want[i] != have[i]) {
			case_say("%s: byte %u is %x, not %x\n", what, i, have[i], want[i]);
			return false;
		}
	return true;
}

struct way {
	const char *name;
	unsigned int pre, post;
};

/* How many of two probes have such a handler. */
static const struct way ways[] = {
	{ "pre", 1, 0 },
	{ "pre and post", 1, 1 },
	{ "post", 0, 1 },
	{ "two probes", 2, 2 },
};

static bool check_seen(const struct kst_row *row, const struct way *way, unsigned int state)
{
	unsigned int times = row->flags & KST_NINE ? 9 : 1;
	unsigned long ip = (unsigned long)row->at;
	struct kst_regs in;
	bool ok = true;

	/* A faulting instruction does not complete. */
	ok &= EXPECT_EQ(kst_seen.pre, way->pre * times);
	if (strncmp(row->name, "fault_", 6))
		ok &= EXPECT_EQ(kst_seen.post, way->post * times);
	if (times == 1)
		ok &= EXPECT_EQ(kst_seen.late, 0);
	ok &= EXPECT_EQ(kst_seen.post_flags, 0);
	if (kst_seen.pre) {
		ok &= EXPECT_EQ(kst_seen.pre_ip, ip + 1);
		if (row->flags & KST_BARE) {
			set_up(&in, state);
			ok &= EXPECT(kst_same_regs("pre handler", &in, &kst_seen.pre_regs, 0));
		}
	}
	if (kst_seen.post && !(row->flags & KST_JUMPS)) {
		ok &= EXPECT_EQ(kst_seen.post_ip, (unsigned long)row->end);
		if (row->flags & KST_STRAIGHT)
			ok &= EXPECT(kst_same_regs("post handler", &plain[state].regs, &kst_seen.post_regs, row->flags));
	}
	return ok;
}

static bool check_end(const struct end *want)
{
	return EXPECT_EQ(probed.way, want->way) &
	       EXPECT(kst_same_regs("end", &want->regs, &probed.regs, 0)) &
	       EXPECT(kst_same_bytes("memory", want->mem, probed.mem, sizeof(want->mem))) &
	       EXPECT(kst_same_bytes("stack", want->stack, probed.stack, sizeof(want->stack)));
}

static bool run_way(const struct kst_row *row, const struct way *way)
{
	struct kprobe kps[2] = {}, *list[2] = { &kps[0], &kps[1] };
	unsigned int state, i, count = max3(way->pre, way->post, 1U);
	bool ok = true;

	for (i = 0; i < count; i++) {
		kps[i].addr = row->at;
		kps[i].pre_handler = i < way->pre ? kst_on_pre : NULL;
		kps[i].post_handler = i < way->post ? kst_on_post : NULL;
	}
	if (!EXPECT_EQ(register_kprobes(list, count), 0))
		return false;
	for (state = 0; state < ARRAY_SIZE(states) && ok; state++) {
		call(row, state, &probed);
		ok = check_seen(row, way, state) & check_end(&plain[state]);
		if (!ok)
			case_say("%s, state %u\n", way->name, state);
	}
	unregister_kprobes(list, count);
	for (i = 0; i < count; i++)
		ok &= EXPECT_EQ(kps[i].nmissed, 0);
	return ok;
}

static const char *lacks(const struct kst_row *row)
{
	if ((row->flags & KST_AVX) && !boot_cpu_has(X86_FEATURE_AVX))
		return "no AVX";
	if ((row->flags & KST_POPCNT) && !boot_cpu_has(X86_FEATURE_POPCNT))
		return "no POPCNT";
	if ((row->flags & KST_RDTSCP) && !boot_cpu_has(X86_FEATURE_RDTSCP))
		return "no RDTSCP";
	return NULL;
}

const char *kst_row_name(unsigned int index)
{
	return kst_rows + index < kst_rows_end ? kst_rows[index].name : NULL;
}

void kst_row_run(unsigned int index)
{
	const struct kst_row *row = &kst_rows[index];
	const char *lacking = lacks(row);
	unsigned int i;

	if (lacking) {
		case_skip(lacking);
		return;
	}
	/* some find out which CPU they run on */
	migrate_disable();
	for (i = 0; i < ARRAY_SIZE(states); i++) {
		call(row, i, &plain[i]);
		EXPECT_EQ(kst_seen.pre + kst_seen.post, 0);
	}
	for (i = 0; i < ARRAY_SIZE(ways); i++)
		if (!run_way(row, &ways[i]))
			break;
	migrate_enable();
}
