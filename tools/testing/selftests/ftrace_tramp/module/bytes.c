// SPDX-License-Identifier: GPL-2.0
/*
 * Bytes of a trampoline: the first case, run before the engine is loaded, keeps them; the second
 * compares.
 */
#include <linux/minmax.h>
#include <linux/string.h>
#include <linux/unaligned.h>

#include "tramp_selftest.h"

/* A trampoline: where it was, and its code. */
static struct trampoline {
	unsigned long at, len;
	u8 code[512];
} kept[2];

static void nothing(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op, struct ftrace_regs *fregs)
{
}

static struct ftrace_ops ops[2] = {
	{ .func = nothing, .flags = FTRACE_OPS_FL_RECURSION },
	{ .func = nothing, .flags = FTRACE_OPS_FL_RECURSION | FTRACE_OPS_FL_SAVE_REGS },
};

/* Looks at the trampoline of an ops. */
static bool look(struct ftrace_ops *op, struct trampoline *t)
{
	if (!EXPECT_EQ(ftrace_set_filter_ip(op, (unsigned long)fts_a, 0, 0), 0) ||
	    !EXPECT_EQ(register_ftrace_function(op), 0))
		return false;
	t->at = op->trampoline;
	t->len = op->trampoline_size;
	if (EXPECT(t->at) && EXPECT(t->len <= sizeof(t->code)))
		memcpy(t->code, (void *)t->at, t->len);
	EXPECT_EQ(unregister_ftrace_function(op), 0);
	ftrace_free_filter(op);
	return t->at && t->len <= sizeof(t->code);
}

static void keep(void)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(ops); i++)
		look(&ops[i], &kept[i]);
}

/* The address that the 32 bits at @field are the distance to. */
static unsigned long target(const struct trampoline *t, unsigned int field)
{
	return t->at + field + 4 + (long)(s32)get_unaligned_le32(t->code + field);
}

/*
 * Returns true if a 32-bit field there may differ in the other code: it names the same address, or
 * is the load of the ops.
 */
static bool may_differ(const struct trampoline *old, const struct trampoline *new, unsigned int field)
{
	static const u8 load_ops[] = { 0x48, 0x8b, 0x15 };
	u8 before = old->code[field - 1];

	if (field >= sizeof(load_ops) && !memcmp(old->code + field - sizeof(load_ops), load_ops, sizeof(load_ops)))
		return target(new, field) - new->at < new->len;
	return (before == 0xe8 || before == 0x3d) && target(new, field) == target(old, field);
}

/* Code that the engine has with fewer instructions, and mainline's; 0 is any byte. */
static const struct {
	unsigned int len;
	u8 old[18], new[18];
} shortened[] = {
	/* mov %rbp, %rdx; mov %rdx, slot(%rsp): mov %rbp, slot(%rsp) */
	{ 8, { 0x48, 0x89, 0xea, 0x48, 0x89, 0x54, 0x24 }, { 0x48, 0x89, 0xac, 0x24 } },
	/* mov $constant, %rcx; mov %rcx, slot(%rsp): movq $constant, slot(%rsp) with prefixes */
	{ 15, { 0x48, 0xc7, 0xc1, 0, 0, 0, 0, 0x48, 0x89, 0x8c, 0x24 }, { 0x3e, 0x3e, 0x3e, 0x48, 0xc7, 0x84, 0x24 } },
	/* is there a direct call: jmp */
	{ 18, { 0x48, 0x8b, 0x44, 0x24, 0, 0x48, 0x89, 0x84, 0x24, 0, 0, 0, 0, 0x48, 0x85, 0xc0, 0x66, 0x90 },
	  { 0xeb, 0x10, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc } },
};

static bool is_like(const u8 *code, const u8 *like, unsigned int len)
{
	while (len--)
		if (like[len] && like[len] != code[len])
			return false;
	return true;
}

/* Returns the length of the shorter code there; 0 if none is shorter. */
static unsigned int shorter(const struct trampoline *old, const struct trampoline *new, unsigned int at, unsigned int end)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(shortened); i++)
		if (at + shortened[i].len <= end && is_like(old->code + at, shortened[i].old, shortened[i].len) &&
		    is_like(new->code + at, shortened[i].new, shortened[i].len))
			return shortened[i].len;
	return 0;
}

/*
 * Up to the return, which has another length where it may be a jump, the codes are the same, except
 * for fields of 32 bits that name the same address, and for one that does not: the load of the ops,
 * from after the code. Each follows known bytes. Some of the engine's instructions are shorter.
 */
static void compare(const struct trampoline *old, const struct trampoline *new)
{
	unsigned int i, back, end = min(old->len, new->len) - 8 - 5, fields = 0, found = 0;

	for (i = 0; i < end; i++) {
		unsigned int less = shorter(old, new, i, end);

		if (less) {
			found++;
			i += less - 1;
			continue;
		}
		if (old->code[i] == new->code[i])
			continue;
		/* the first byte that differs need not be the field's first */
		for (back = 0; back < 4 && back < i; back++)
			if (may_differ(old, new, i - back))
				break;
		if (!EXPECT(back < 4 && back < i)) {
			case_say("at %u: %02x, not %02x\n", i, new->code[i], old->code[i]);
			return;
		}
		fields++;
		i += 3 - back;
	}
	/* the call, at least, unless it is where the other was, as may be by chance */
	EXPECT(fields || new->at == old->at);
	case_say("%u bytes, %u fields, %u shorter\n", end, fields, found);
}

static void same(void)
{
	struct trampoline *t = &kept[0];
	static struct trampoline now;
	int i;

	if (!t->at) {
		case_skip("bytes.keep has not run");
		return;
	}
	for (i = 0; i < ARRAY_SIZE(ops); i++)
		if (look(&ops[i], &now))
			compare(&kept[i], &now);
}

const struct test_case fts_bytes_cases[] = {
	{ "bytes.keep", keep },
	{ "bytes.same", same },
	{ }
};
