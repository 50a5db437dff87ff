// SPDX-License-Identifier: GPL-2.0
/*
 * Functions with data of their own: each call has its function's data, once, regardless of other
 * tracers.
 */
#include <linux/ferrotrace_ftrace.h>
#include <linux/pgtable.h>
#include <linux/prandom.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/unaligned.h>
#include <linux/vmalloc.h>
#include <asm/set_memory.h>
#include <asm/unwind.h>

#include "tramp_selftest.h"

#define FUNCTIONS 3
#define SETS 3
#define OTHERS 4
#define STEPS 150

static const void * const functions[FUNCTIONS] = { fts_a, fts_b, fts_sum };

/* Attached data, with its set and function; the callback counts in it. */
struct seen {
	struct set *set;
	const void *function;
	unsigned int calls;
};

struct set {
	struct ftrace_data_ops ops;
	struct seen seen[FUNCTIONS];
	bool on[FUNCTIONS];
};

static struct set sets[SETS];
static struct {
	struct ftrace_ops ops;
	bool registered, on[FUNCTIONS];
	unsigned int calls;
} others[OTHERS];

/* Number of calls with data of another function, or without registers, or with wrong ones. */
static unsigned int wrong;

static void count(unsigned long ip, unsigned long parent_ip, void *data, struct ftrace_regs *fregs)
{
	struct seen *seen = data;

	if (seen < sets[0].seen || seen >= sets[SETS - 1].seen + FUNCTIONS) {
		wrong++;
		return;
	}
	/* The function may begin with an instruction that is there for indirect branches. */
	if (ip - (unsigned long)seen->function > 8)
		wrong++;
	if (seen->set->ops.flags & FTRACE_OPS_FL_SAVE_REGS &&
	    (!ftrace_get_regs(fregs) || ftrace_get_regs(fregs)->sp < (unsigned long)fregs))
		wrong++;
	if (ftrace_regs_get_argument(fregs, 0) != 15 && seen->function != fts_sum)
		wrong++;
	if (within_module(parent_ip, THIS_MODULE) == 0)
		wrong++;
	seen->calls++;
}

static void count_other(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op, struct ftrace_regs *fregs)
{
	container_of(op, typeof(others[0]), ops)->calls++;
}

static long call(unsigned int function)
{
	switch (function) {
	case 0: return fts_a(15);
	case 1: return fts_b(15);
	default: return fts_sum(0, 1, 2, 3, 4, 5);
	}
}

/* Checks that each function calls its callbacks, once. */
static bool all_right(void)
{
	unsigned int i, f, g;
	bool ok = true;

	for (f = 0; f < FUNCTIONS; f++) {
		for (i = 0; i < SETS; i++)
			for (g = 0; g < FUNCTIONS; g++)
				sets[i].seen[g].calls = 0;
		for (i = 0; i < OTHERS; i++)
			others[i].calls = 0;
		ok &= EXPECT_EQ(call(f), 15);
		for (i = 0; i < SETS; i++)
			for (g = 0; g < FUNCTIONS; g++)
				ok &= EXPECT_EQ(sets[i].seen[g].calls, g == f && sets[i].on[g]);
		for (i = 0; i < OTHERS; i++)
			ok &= EXPECT_EQ(others[i].calls, others[i].registered && others[i].on[f]);
	}
	return ok & EXPECT_EQ(wrong, 0);
}

static void set_up(void)
{
	unsigned int i, f;

	wrong = 0;
	memset(sets, 0, sizeof(sets));
	memset(others, 0, sizeof(others));
	for (i = 0; i < SETS; i++) {
		sets[i].ops.func = count;
		sets[i].ops.flags = i == 1 ? FTRACE_OPS_FL_SAVE_REGS : 0;
		for (f = 0; f < FUNCTIONS; f++)
			sets[i].seen[f] = (struct seen){ .set = &sets[i], .function = functions[f] };
	}
	for (i = 0; i < OTHERS; i++) {
		others[i].ops.func = count_other;
		others[i].ops.flags = i == 2 ? FTRACE_OPS_FL_SAVE_REGS : i == 3 ? FTRACE_OPS_FL_RECURSION : 0;
	}
}

/*
 * Attaches a set's data to those functions of the mask that have none of it, or detaches it from
 * those that have.
 */
static bool change(struct set *set, unsigned int mask, bool attach, bool wait)
{
	struct ftrace_data data[FUNCTIONS];
	unsigned long ips[FUNCTIONS];
	unsigned int f, count = 0;

	for (f = 0; f < FUNCTIONS; f++)
		if (mask & BIT(f) && set->on[f] != attach) {
			/* In any order; with the address of the function, or of its site. */
			ips[count] = (unsigned long)functions[f];
			data[count++] = (struct ftrace_data){ (unsigned long)functions[f], &set->seen[f] };
			set->on[f] = attach;
		}
	if (count > 1) {
		swap(data[0], data[count - 1]);
		swap(ips[0], ips[count - 1]);
	}
	if (attach)
		return EXPECT_EQ(ftrace_data_attach(&set->ops, data, count), 0);
	if (wait)
		return EXPECT_EQ(ftrace_data_detach(&set->ops, ips, count), 0);
	return EXPECT_EQ(ftrace_data_detach_nowait(&set->ops, ips, count), 0);
}

static void release(struct set *set)
{
	ftrace_data_release(&set->ops);
	memset(set->on, 0, sizeof(set->on));
}

static void own(void)
{
	unsigned int i;

	for (i = 0; i < 2; i++) {
		set_up();
		change(&sets[i], 7, true, true);
		all_right();
		change(&sets[i], 2, false, true);
		all_right();
		change(&sets[i], 2, true, true);
		change(&sets[i], 5, false, true);
		all_right();
		/* none is left, and then there are some again */
		change(&sets[i], 2, false, true);
		all_right();
		change(&sets[i], 4, true, true);
		all_right();
		release(&sets[i]);
		all_right();
		/* The set may be used again. */
		change(&sets[i], 3, true, true);
		all_right();
		release(&sets[i]);
		release(&sets[i]);
	}
}

/* Where the call at a function's entry returns to. */
static const u8 *after_call(const void *function)
{
	const u8 *at = function;

	/* endbr64 */
	if (at[0] == 0xf3 && at[1] == 0x0f && at[2] == 0x1e && at[3] == 0xfa)
		at += 4;
	return at + 5;
}

const u8 *fts_called(const void *function)
{
	const u8 *after = after_call(function);

	return after[-5] == 0xe8 ? after + get_unaligned((s32 *)(after - 4)) : NULL;
}

/* Returns true if a function calls a stub that loads this data: movabs $data, %r11. */
static bool calls_stub(unsigned int function, const struct seen *data)
{
	const u8 *stub = fts_called(functions[function]);

	return stub && stub[0] == 0x49 && stub[1] == 0xbb &&
	       get_unaligned((unsigned long *)(stub + 2)) == (unsigned long)data;
}

/* Of the engine: alone a function calls its stub, with others it does not. */
static void stub(void)
{
	unsigned int f;

	set_up();
	change(&sets[0], 1, true, true);
	change(&sets[0], 6, true, true);
	for (f = 0; f < FUNCTIONS; f++)
		EXPECT(calls_stub(f, &sets[0].seen[f]));
	change(&sets[1], 1, true, true);
	EXPECT(!calls_stub(0, &sets[0].seen[0]) && !calls_stub(0, &sets[1].seen[0]));
	all_right();
	change(&sets[0], 1, false, true);
	EXPECT(calls_stub(0, &sets[1].seen[0]));
	all_right();
	release(&sets[1]);
	EXPECT(calls_stub(1, &sets[0].seen[1]));
	release(&sets[0]);
	all_right();
}

/* Returns true if the unwinder finds the caller of function @f for an interrupt at an address. */
static bool unwinds(unsigned int f, unsigned long at)
{
	unsigned long stack[] = { (unsigned long)after_call(functions[f]), _THIS_IP_, 0, 0 };
	struct pt_regs regs = { .ip = at, .sp = (unsigned long)stack, .cs = __KERNEL_CS };
	struct unwind_state state;
	unsigned int i;

	/* The unwinding begins with the caller. */
	unwind_start(&state, current, &regs, NULL);
	for (i = 0; i < 2; i++, unwind_next_frame(&state))
		if (unwind_done(&state) || unwind_error(&state) || state.ip != stack[i])
			return false;
	return true;
}

/* At each instruction of called code until the trampoline has pushed something. */
static void unwound(void)
{
	const u8 *stub;
	unsigned int f;

	set_up();
	change(&sets[0], 7, true, true);
	for (f = 0; f < FUNCTIONS; f++) {
		stub = fts_called(functions[f]);
		if (!EXPECT(stub))
			continue;
		EXPECT(unwinds(f, (unsigned long)stub));
		if (calls_stub(f, &sets[0].seen[f]))
			EXPECT(unwinds(f, (unsigned long)stub + 10));
	}
	release(&sets[0]);
}

static bool toggle_other(unsigned int i)
{
	unsigned int f;

	if (others[i].registered) {
		others[i].registered = false;
		if (!EXPECT_EQ(unregister_ftrace_function(&others[i].ops), 0))
			return false;
		ftrace_free_filter(&others[i].ops);
		return true;
	}
	for (f = 0; f < FUNCTIONS; f++) {
		others[i].on[f] = f != i % FUNCTIONS;
		if (others[i].on[f] &&
		    !EXPECT_EQ(ftrace_set_filter_ip(&others[i].ops, (unsigned long)functions[f], 0, 0), 0))
			return false;
	}
	others[i].registered = EXPECT_EQ(register_ftrace_function(&others[i].ops), 0);
	return others[i].registered;
}

/*
 * Something like a stub in memory of another kind, which may be a device's: the unwinder does not
 * read it, as the page table's accessed bit shows.
 */
static void unwound_elsewhere(void)
{
	static const u8 stub[] = { 0x49, 0xbb, 0, 0, 0, 0, 0, 0, 0, 0, 0xe9, 0, 0, 0, 0 };
	u8 *page = vmalloc(PAGE_SIZE);
	unsigned int level;
	pte_t *pte;

	if (!EXPECT(page))
		return;
	memcpy(page, stub, sizeof(stub));
	pte = lookup_address((unsigned long)page, &level);
	if (EXPECT(pte && level == PG_LEVEL_4K)) {
		set_pte(pte, pte_mkold(*pte));
		asm volatile("invlpg (%0)" : : "r"(page) : "memory");
		unwinds(0, (unsigned long)page);
		EXPECT(!pte_young(*pte));
	}
	vfree(page);
}

/* Number of callbacks with all registers of the caller, or with those of the arguments. */
static unsigned int with_all, with_some;

static void look_at_registers(unsigned long ip, unsigned long parent_ip, void *data, struct ftrace_regs *fregs)
{
	if (ftrace_get_regs(fregs))
		with_all++;
	else
		with_some++;
}

/* A flag that asks for all registers provides them, alone and together with another ops. */
static void registers(void)
{
	static const unsigned long flags[] = { 0, FTRACE_OPS_FL_SAVE_REGS, FTRACE_OPS_FL_SAVE_REGS_IF_SUPPORTED };
	struct ftrace_data data = { (unsigned long)fts_a, &sets[0] };
	static struct ftrace_data_ops with_data;
	unsigned int i;

	set_up();
	for (i = 0; i < ARRAY_SIZE(flags); i++) {
		memset(&with_data, 0, sizeof(with_data));
		with_data.func = look_at_registers;
		with_data.flags = flags[i];
		with_all = with_some = 0;
		if (!EXPECT_EQ(ftrace_data_attach(&with_data, &data, 1), 0))
			return;
		fts_a(1);
		/* The function is among its functions. */
		EXPECT(toggle_other(1));
		fts_a(1);
		EXPECT_EQ(with_all, flags[i] ? 2 : 0);
		EXPECT_EQ(with_some, flags[i] ? 0 : 2);
		EXPECT(toggle_other(1));
		ftrace_data_release(&with_data);
	}
}

/* In any order. */
static void changes(void)
{
	struct rnd_state rnd;
	unsigned int i, step;
	bool ok = true;

	set_up();
	prandom_seed_state(&rnd, 15);
	for (step = 0; step < STEPS && ok; step++) {
		u32 random = prandom_u32_state(&rnd);
		struct set *set = &sets[(random >> 4) % SETS];
		unsigned int mask = (random >> 8) % 8;

		switch (random % 8) {
		case 0: case 1: case 2:
			ok = change(set, mask, true, true);
			break;
		case 3: case 4:
			ok = change(set, mask, false, step % 8 == 0);
			break;
		case 5:
			if (step % 4 == 0)
				release(set);
			break;
		default:
			ok = toggle_other((random >> 16) % OTHERS);
		}
		ok &= all_right();
		if (!ok)
			pr_err("step %u\n", step);
	}
	for (i = 0; i < SETS; i++)
		release(&sets[i]);
	for (i = 0; i < OTHERS; i++)
		if (others[i].registered)
			toggle_other(i);
	all_right();
}

/* All or none, and nothing is left. */
static void refused(void)
{
	struct ftrace_data data[3];
	unsigned long ips[3];
	struct set *set = &sets[0];
	unsigned int f;

	set_up();
	for (f = 0; f < FUNCTIONS; f++) {
		ips[f] = (unsigned long)functions[f];
		data[f] = (struct ftrace_data){ ips[f], &set->seen[f] };
	}
	EXPECT_EQ(ftrace_data_attach(&set->ops, NULL, 0), 0);
	EXPECT_EQ(ftrace_data_detach(&set->ops, NULL, 0), 0);
	EXPECT_EQ(ftrace_data_detach(&set->ops, ips, 1), -ENOENT);
	ftrace_data_release(&set->ops);

	/* no function, in the middle of one, one that is not traced, twice, no callback, flags that have no meaning */
	data[2].ip = (unsigned long)&set->seen;
	EXPECT_EQ(ftrace_data_attach(&set->ops, data, 3), -EINVAL);
	data[2].ip = 0;
	EXPECT_EQ(ftrace_data_attach(&set->ops, data, 3), -EINVAL);
	data[2].ip = ips[2] + 10;
	EXPECT_EQ(ftrace_data_attach(&set->ops, data, 3), -EINVAL);
	data[2].ip = (unsigned long)count;
	EXPECT_EQ(ftrace_data_attach(&set->ops, data, 3), -EINVAL);
	data[2].ip = ips[0];
	EXPECT_EQ(ftrace_data_attach(&set->ops, data, 3), -EEXIST);
	data[2].ip = ips[2];
	set->ops.func = NULL;
	EXPECT_EQ(ftrace_data_attach(&set->ops, data, 3), -EINVAL);
	set->ops.func = count;
	set->ops.flags = FTRACE_OPS_FL_RECURSION;
	EXPECT_EQ(ftrace_data_attach(&set->ops, data, 3), -EINVAL);
	set->ops.flags = FTRACE_OPS_FL_IPMODIFY | FTRACE_OPS_FL_SAVE_REGS;
	EXPECT_EQ(ftrace_data_attach(&set->ops, data, 3), -EINVAL);
	set->ops.flags = 0;
	all_right();

	change(set, 3, true, true);
	EXPECT_EQ(ftrace_data_attach(&set->ops, data, 3), -EEXIST);
	EXPECT_EQ(ftrace_data_attach(&set->ops, data + 1, 2), -EEXIST);
	all_right();
	/* One that is not attached, one listed twice, more than are attached. */
	EXPECT_EQ(ftrace_data_detach(&set->ops, ips + 1, 2), -ENOENT);
	EXPECT_EQ(ftrace_data_detach(&set->ops, ips, 3), -ENOENT);
	ips[1] = ips[0];
	EXPECT_EQ(ftrace_data_detach(&set->ops, ips, 2), -ENOENT);
	ips[1] = 0;
	EXPECT_EQ(ftrace_data_detach(&set->ops, ips, 2), -ENOENT);
	all_right();
	release(set);
	all_right();
}

/* Up to the next step: the engine is unloaded and loaded in between. */
static void renew_begin(void)
{
	set_up();
	change(&sets[0], 7, true, true);
	change(&sets[1], 6, true, true);
	all_right();
}

static void renew_same(void)
{
	all_right();
	change(&sets[0], 1, false, true);
	all_right();
	change(&sets[0], 1, true, true);
	all_right();
}

static void renew_end(void)
{
	all_right();
	release(&sets[0]);
	all_right();
	release(&sets[1]);
	all_right();
}

const struct test_case fts_data_cases[] = {
	{ "data.own", own },
	{ "data.stub", stub },
	{ "data.unwound", unwound },
	{ "data.unwound_elsewhere", unwound_elsewhere },
	{ "data.registers", registers },
	{ "data.changes", changes },
	{ "data.refused", refused },
	{ "data.renew_1_begin", renew_begin },
	{ "data.renew_2_same", renew_same },
	{ "data.renew_3_end", renew_end },
	{ }
};
