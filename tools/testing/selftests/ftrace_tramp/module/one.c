// SPDX-License-Identifier: GPL-2.0
/* One ftrace_ops on a function: it has its own trampoline. */
#include <linux/ptrace.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "tramp_selftest.h"

/* An ops, and the values that its callback has seen. */
struct counting {
	struct ftrace_ops ops;
	unsigned int calls, wrong;
	const void *function;
	long changes_first_to;
};

/* Calls from within the ops's function have this as the parent. */
static unsigned long last_parent;

static void count(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op, struct ftrace_regs *fregs)
{
	struct counting *c = container_of(op, struct counting, ops);

	c->calls++;
	last_parent = parent_ip;
	/* after the landing pad of an indirect call, if there is one */
	if (ip - (unsigned long)c->function > 4)
		c->wrong++;
}

static void count_regs(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op, struct ftrace_regs *fregs)
{
	struct counting *c = container_of(op, struct counting, ops);
	struct pt_regs *regs = ftrace_get_regs(fregs);

	count(ip, parent_ip, op, fregs);
	if (!regs || regs->ip != ip + 5 || *(unsigned long *)regs->sp != parent_ip)
		c->wrong++;
	else if (c->changes_first_to)
		regs->di = c->changes_first_to;
}

/* Registers @c for the function. */
static bool begin(struct counting *c, const void *function)
{
	c->function = function;
	if (!EXPECT_EQ(ftrace_set_filter_ip(&c->ops, (unsigned long)function, 0, 0), 0))
		return false;
	return EXPECT_EQ(register_ftrace_function(&c->ops), 0);
}

static void end(struct counting *c)
{
	EXPECT_EQ(unregister_ftrace_function(&c->ops), 0);
	EXPECT_EQ(c->wrong, 0);
	ftrace_free_filter(&c->ops);
}

#define CALLS 1000

static void counted(ftrace_func_t func, unsigned long flags)
{
	struct counting c = { .ops = { .func = func, .flags = flags } };
	long i;

	if (!begin(&c, fts_a))
		return;
	EXPECT(c.ops.flags & FTRACE_OPS_FL_ALLOC_TRAMP);
	EXPECT(c.ops.trampoline);
	EXPECT(c.ops.trampoline_size);
	EXPECT(!fts_is_plain(fts_a));
	for (i = 0; i < CALLS; i++) {
		EXPECT_EQ(fts_a(i), i);
		EXPECT_EQ(fts_b(i), i);
	}
	EXPECT_EQ(c.calls, CALLS);
	/* The caller is in this function. */
	EXPECT(last_parent - (unsigned long)counted < 1024);
	end(&c);
	EXPECT_EQ(fts_a(1), 1);
	EXPECT_EQ(c.calls, CALLS);
	EXPECT_EQ(c.ops.trampoline, 0);
}

static void plain(void)
{
	counted(count, FTRACE_OPS_FL_RECURSION);
}

/* Another function asks before the callback if the callback is running already. */
static void asked(void)
{
	counted(count, 0);
}

static void regs(void)
{
	counted(count_regs, FTRACE_OPS_FL_RECURSION | FTRACE_OPS_FL_SAVE_REGS);
}

static void needs_rcu(void)
{
	counted(count, FTRACE_OPS_FL_RECURSION | FTRACE_OPS_FL_RCU);
}

/* All arguments get through, and the callback may change them where it has the registers. */
static void arguments(void)
{
	struct counting c = { .ops = { .func = count_regs, .flags = FTRACE_OPS_FL_SAVE_REGS } };

	if (!begin(&c, fts_sum))
		return;
	EXPECT_EQ(fts_sum(1, 20, 300, 4000, 50000, 600000), 654321);
	c.changes_first_to = 7;
	EXPECT_EQ(fts_sum(1, 20, 300, 4000, 50000, 600000), 654327);
	EXPECT_EQ(c.calls, 2);
	end(&c);
}

/* A client's own trampoline is used as it is, and stays the client's. */
static void own_trampoline(void)
{
	struct counting other = { .ops = { .func = count, .flags = FTRACE_OPS_FL_RECURSION } };
	struct counting c = { .ops = { .func = count, .flags = FTRACE_OPS_FL_RECURSION } };
	unsigned long trampoline;

	/* a usable one: of an ops that traces another function */
	if (!begin(&other, fts_b))
		return;
	trampoline = other.ops.trampoline;
	c.ops.trampoline = trampoline;
	other.function = fts_a;
	if (begin(&c, fts_a)) {
		EXPECT(!(c.ops.flags & FTRACE_OPS_FL_ALLOC_TRAMP));
		EXPECT_EQ(fts_a(1), 1);
		EXPECT_EQ(c.calls, 0);
		EXPECT_EQ(other.calls, 1);
		end(&c);
	}
	EXPECT_EQ(c.ops.trampoline, trampoline);
	end(&other);
}

/* The memory of an ops is freed at once. */
static void freed(void)
{
	struct counting *c;
	int i;

	for (i = 0; i < 20; i++) {
		c = kzalloc_obj(*c, GFP_KERNEL);
		if (!EXPECT(c))
			return;
		c->ops.func = i & 1 ? count_regs : count;
		c->ops.flags = i & 1 ? FTRACE_OPS_FL_SAVE_REGS : 0;
		if (begin(c, fts_a)) {
			EXPECT_EQ(fts_a(i), i);
			EXPECT_EQ(c->calls, 1);
			end(c);
		}
		memset(c, 0x5a, sizeof(*c));
		kfree(c);
	}
}

/* Mainline keeps call and jump in one word, by bit 0 of the address, and jumps: the function returns to nowhere. */
static void odd(void)
{
	struct counting c = { .ops = { .func = fts_odd, .flags = FTRACE_OPS_FL_RECURSION } };
	unsigned long before = fts_odd_calls, at = (unsigned long)fts_odd;
	int i;

	/* the compiler takes no function for one at such an address */
	OPTIMIZER_HIDE_VAR(at);
	EXPECT(at & 1);
	if (!begin(&c, fts_a))
		return;
	for (i = 0; i < CALLS; i++)
		EXPECT_EQ(fts_a(i), i);
	EXPECT_EQ(fts_odd_calls - before, CALLS);
	end(&c);
}

const struct test_case fts_one_cases[] = {
	{ "one.plain", plain },
	{ "one.asked", asked },
	{ "one.regs", regs },
	{ "one.needs_rcu", needs_rcu },
	{ "one.arguments", arguments },
	{ "one.own_trampoline", own_trampoline },
	{ "one.freed", freed },
	{ "one.odd", odd },
	{ }
};
