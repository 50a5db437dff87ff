// SPDX-License-Identifier: GPL-2.0
/*
 * Ops that are registered, unregistered and change their filters, one by one and several at once.
 * Each function calls the ops that trace it, each once, the one that was registered last first.
 */
#include <linux/ferrotrace_ftrace.h>
#include <linux/prandom.h>
#include <linux/string.h>

#include "tramp_selftest.h"

#define OPS 20
#define FUNCTIONS 3
#define STEPS 150
#define MANY 40

struct traced {
	struct ftrace_ops ops;
	bool registered, on[FUNCTIONS];
	/* when it was registered */
	unsigned int age;
};

static struct traced traced[MANY];
static const void * const functions[FUNCTIONS] = { fts_a, fts_b, fts_sum };

/* The ops that were called, in this order. */
static struct traced *called[MANY + 1];
static unsigned int calls;
/* A callback that is to have all registers got none. */
static bool no_regs;

static void note(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op, struct ftrace_regs *fregs)
{
	if (op->flags & FTRACE_OPS_FL_SAVE_REGS && !ftrace_get_regs(fregs))
		no_regs = true;
	if (calls < ARRAY_SIZE(called))
		called[calls++] = container_of(op, struct traced, ops);
}

static long call(unsigned int function)
{
	switch (function) {
	case 0: return fts_a(15);
	case 1: return fts_b(15);
	default: return fts_sum(0, 1, 2, 3, 4, 5);
	}
}

/* Returns true if a function calls the expected ops. */
static bool calls_right(unsigned int function)
{
	unsigned int i, want = 0;
	bool ok;

	calls = 0;
	ok = EXPECT_EQ(call(function), 15);
	for (i = 0; i < MANY; i++)
		want += traced[i].registered && traced[i].on[function];
	ok &= EXPECT_EQ(calls, want);
	for (i = 0; i < calls && ok; i++) {
		ok &= EXPECT(called[i]->registered && called[i]->on[function]);
		ok &= EXPECT(!i || called[i]->age < called[i - 1]->age);
	}
	return ok;
}

static bool all_right(void)
{
	unsigned int i;
	bool ok = true;

	for (i = 0; i < FUNCTIONS; i++)
		ok &= calls_right(i);
	return ok && EXPECT(!no_regs);
}

static void set_up(struct traced *t, unsigned long flags)
{
	*t = (struct traced){ .ops = { .func = note, .flags = flags } };
}

/* Has it trace these functions; not none, which would be all of the kernel. */
static bool filter(struct traced *t, unsigned int wanted)
{
	unsigned int i;

	for (i = 0; i < FUNCTIONS; i++)
		if (wanted & BIT(i) && !t->on[i]) {
			if (!EXPECT_EQ(ftrace_set_filter_ip(&t->ops, (unsigned long)functions[i], 0, 0), 0))
				return false;
			t->on[i] = true;
		}
	for (i = 0; i < FUNCTIONS; i++)
		if (!(wanted & BIT(i)) && t->on[i]) {
			if (!EXPECT_EQ(ftrace_set_filter_ip(&t->ops, (unsigned long)functions[i], 1, 0), 0))
				return false;
			t->on[i] = false;
		}
	return true;
}

static void forget(struct traced *t)
{
	if (t->registered)
		EXPECT_EQ(unregister_ftrace_function(&t->ops), 0);
	ftrace_free_filter(&t->ops);
	memset(t, 0, sizeof(*t));
}

static void changes(void)
{
	static const unsigned long flags[] = {
		0, FTRACE_OPS_FL_RECURSION, 0, FTRACE_OPS_FL_SAVE_REGS, FTRACE_OPS_FL_RECURSION | FTRACE_OPS_FL_RCU,
	};
	struct rnd_state rnd;
	unsigned int i, step, age = 0;

	no_regs = false;
	prandom_seed_state(&rnd, 13);
	for (i = 0; i < OPS; i++)
		set_up(&traced[i], flags[i % ARRAY_SIZE(flags)]);
	for (step = 0; step < STEPS; step++) {
		u32 random = prandom_u32_state(&rnd);
		struct traced *t = &traced[random % OPS];
		unsigned int wanted = (random >> 8) % 7 + 1;

		/*
		 * In the middle most are registered, so that there are functions with more than a
		 * set can have.
		 */
		if (t->registered && (random >> 16) % (step < STEPS / 2 ? 8 : 2) == 0) {
			if (!EXPECT_EQ(unregister_ftrace_function(&t->ops), 0))
				break;
			t->registered = false;
		} else if (!filter(t, wanted)) {
			break;
		} else if (!t->registered) {
			t->age = ++age;
			if (!EXPECT_EQ(register_ftrace_function(&t->ops), 0))
				break;
			t->registered = true;
		}
		if (!all_right()) {
			pr_err("step %u\n", step);
			break;
		}
	}
	for (i = 0; i < OPS; i++)
		forget(&traced[i]);
	all_right();
}

/* One of several ops makes the function resume elsewhere. */
static noinline long elsewhere_it_is(long x)
{
	return x + 100;
}

static void go_elsewhere(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op, struct ftrace_regs *fregs)
{
	ftrace_regs_set_instruction_pointer(fregs, (unsigned long)elsewhere_it_is);
}

static void goes_on_elsewhere(void)
{
	static struct ftrace_ops elsewhere;
	unsigned int i;

	elsewhere = (struct ftrace_ops){ .func = go_elsewhere, .flags = FTRACE_OPS_FL_SAVE_REGS | FTRACE_OPS_FL_IPMODIFY };
	for (i = 0; i < 2; i++) {
		set_up(&traced[i], i ? FTRACE_OPS_FL_RECURSION : 0);
		if (!filter(&traced[i], BIT(0)))
			return;
	}
	if (!EXPECT_EQ(register_ftrace_function(&traced[0].ops), 0))
		return;
	EXPECT_EQ(ftrace_set_filter_ip(&elsewhere, (unsigned long)fts_a, 0, 0), 0);
	EXPECT_EQ(register_ftrace_function(&elsewhere), 0);
	EXPECT_EQ(register_ftrace_function(&traced[1].ops), 0);
	traced[0].registered = traced[1].registered = true;
	traced[1].age = 1;
	calls = 0;
	EXPECT_EQ(fts_a(1), 101);
	EXPECT_EQ(calls, 2);
	EXPECT_EQ(unregister_ftrace_function(&elsewhere), 0);
	ftrace_free_filter(&elsewhere);
	calls_right(0);
	for (i = 0; i < 2; i++)
		forget(&traced[i]);
}

static struct ftrace_ops *batch[MANY];

static bool fill_batch(void)
{
	unsigned int i;

	for (i = 0; i < MANY; i++) {
		/* Some functions have few, and some many. */
		set_up(&traced[i], i % 7 ? FTRACE_OPS_FL_RECURSION : FTRACE_OPS_FL_SAVE_REGS);
		traced[i].age = i;
		batch[i] = &traced[i].ops;
		if (!filter(&traced[i], i < 4 ? 7 : i < 20 ? 2 : 4))
			return false;
	}
	return true;
}

static void empty_batch(void)
{
	unsigned int i;

	for (i = 0; i < MANY; i++)
		forget(&traced[i]);
}

static void are_registered(bool are)
{
	unsigned int i;

	for (i = 0; i < MANY; i++)
		traced[i].registered = are;
	all_right();
}

static void at_once(void)
{
	no_regs = false;
	if (fill_batch()) {
		EXPECT_EQ(register_ftrace_functions(batch, 0), 0);
		EXPECT_EQ(unregister_ftrace_functions(batch, 0), 0);
		if (EXPECT_EQ(register_ftrace_functions(batch, MANY), 0)) {
			are_registered(true);
			EXPECT_EQ(unregister_ftrace_functions(batch, MANY), 0);
			are_registered(false);
		}
		/* Some of them, and in another order. */
		swap(batch[0], batch[5]);
		if (EXPECT_EQ(register_ftrace_functions(batch, MANY), 0)) {
			swap(traced[0].age, traced[5].age);
			are_registered(true);
			EXPECT_EQ(unregister_ftrace_functions(batch + 10, MANY - 10), 0);
			for (unsigned int i = 10; i < MANY; i++)
				traced[i].registered = false;
			all_right();
			EXPECT_EQ(unregister_ftrace_functions(batch, 10), 0);
			are_registered(false);
		}
	}
	empty_batch();
}

/* All or none. */
static void refused(void)
{
	static struct ftrace_ops modifies = { .func = note, .flags = FTRACE_OPS_FL_SAVE_REGS | FTRACE_OPS_FL_IPMODIFY };
	static struct ftrace_ops no_code = { .func = (ftrace_func_t)functions };
	struct ftrace_ops *last;

	if (!fill_batch())
		goto out;
	last = batch[MANY - 1];

	/* one of the batch is registered already */
	EXPECT_EQ(register_ftrace_function(last), 0);
	traced[MANY - 1].registered = true;
	EXPECT_EQ(register_ftrace_functions(batch, MANY), -EBUSY);
	all_right();
	/* one of the batch is not registered */
	EXPECT_EQ(unregister_ftrace_functions(batch + MANY - 2, 2), -EBUSY);
	all_right();
	EXPECT_EQ(unregister_ftrace_function(last), 0);
	traced[MANY - 1].registered = false;

	/* twice the same */
	batch[MANY - 1] = batch[2];
	EXPECT_EQ(register_ftrace_functions(batch, MANY), -EBUSY);
	all_right();
	batch[MANY - 1] = last;
	if (EXPECT_EQ(register_ftrace_functions(batch, MANY), 0)) {
		batch[MANY - 1] = batch[2];
		EXPECT_EQ(unregister_ftrace_functions(batch, MANY), -EBUSY);
		batch[MANY - 1] = NULL;
		EXPECT_EQ(unregister_ftrace_functions(batch, MANY), -EINVAL);
		batch[MANY - 1] = last;
		are_registered(true);
		EXPECT_EQ(unregister_ftrace_functions(batch, MANY), 0);
	}
	are_registered(false);

	/* the ops with empty filters are all that the function has, with all registers */
	forget(&traced[0]);
	set_up(&traced[0], FTRACE_OPS_FL_SAVE_REGS);
	if (filter(&traced[0], BIT(0))) {
		struct ftrace_ops *twice[] = { &traced[0].ops, &traced[0].ops };

		EXPECT_EQ(register_ftrace_functions(twice, 2), -EBUSY);
	}
	all_right();
	/* ftrace still works when the last one is unregistered. */
	EXPECT_EQ(register_ftrace_function(&traced[1].ops), 0);
	EXPECT_EQ(unregister_ftrace_function(&traced[1].ops), 0);
	EXPECT_EQ(register_ftrace_function(&traced[1].ops), 0);
	EXPECT_EQ(unregister_ftrace_function(&traced[1].ops), 0);

	/* Ops that cannot be registered in this way, or at all. */
	batch[MANY - 1] = NULL;
	EXPECT_EQ(register_ftrace_functions(batch, MANY), -EINVAL);
	batch[MANY - 1] = &modifies;
	EXPECT_EQ(register_ftrace_functions(batch, MANY), -EINVAL);
	batch[MANY - 1] = &no_code;
	EXPECT_EQ(register_ftrace_functions(batch, MANY), -EINVAL);
	all_right();
out:
	empty_batch();
}

const struct test_case fts_sets_cases[] = {
	{ "sets.changes", changes },
	{ "sets.goes_on_elsewhere", goes_on_elsewhere },
	{ "batch.at_once", at_once },
	{ "batch.refused", refused },
	{ }
};
