// SPDX-License-Identifier: GPL-2.0
/*
 * Return probes.
 */
#include <linux/completion.h>
#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/ptrace.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/stacktrace.h>
#include <linux/string.h>

#include "kprobes_selftest.h"

/* Data of an instance, from the entry to the return. */
struct data {
	unsigned long argument;
	struct task_struct *task;
};

static atomic_t entries, returns, wrong, returned_sum;

static int on_entry(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	struct data *data = (void *)ri->data;

	atomic_inc(&entries);
	data->argument = regs->di;
	data->task = current;
	return 0;
}
NOKPROBE_SYMBOL(on_entry);

static int on_return(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	struct data *data = (void *)ri->data;

	atomic_inc(&returns);
	atomic_add(regs_return_value(regs), &returned_sum);
	if (data->task != current || get_kretprobe(ri)->data_size != sizeof(*data))
		atomic_inc(&wrong);
	return 0;
}
NOKPROBE_SYMBOL(on_return);

static void clear(void)
{
	atomic_set(&entries, 0);
	atomic_set(&returns, 0);
	atomic_set(&wrong, 0);
	atomic_set(&returned_sum, 0);
}

#define RET(function, ...)						\
	{								\
		.kp.addr = (kprobe_opcode_t *)(function),		\
		.entry_handler = on_entry, .handler = on_return,	\
		.data_size = sizeof(struct data), __VA_ARGS__		\
	}

#define MANY 50

static void value(void)
{
	struct kretprobe rp = RET(kst_target);
	int i, sum = 0;

	clear();
	EXPECT_EQ(register_kretprobe(&rp), 0);
	EXPECT(kprobe_ftrace(&rp.kp));
	EXPECT_EQ(rp.maxactive, max(10, 2 * (int)num_possible_cpus()));
	for (i = 0; i < MANY; i++)
		sum += kst_target(i);
	unregister_kretprobe(&rp);
	EXPECT_EQ(kst_target(1), 4);
	EXPECT_EQ(atomic_read(&entries), MANY);
	EXPECT_EQ(atomic_read(&returns), MANY);
	EXPECT_EQ(atomic_read(&returned_sum), sum);
	EXPECT_EQ(atomic_read(&wrong), 0);
	EXPECT_EQ(rp.nmissed, 0);
}

/* Where ftrace has no place. */
static void by_breakpoint(void)
{
	struct kretprobe rp = RET(kst_bytes);
	int i;

	clear();
	EXPECT_EQ(register_kretprobe(&rp), 0);
	EXPECT(!kprobe_ftrace(&rp.kp));
	for (i = 0; i < MANY; i++)
		EXPECT_EQ(kst_call_bytes(i), i);
	unregister_kretprobe(&rp);
	EXPECT_EQ(atomic_read(&returns), MANY);
	EXPECT_EQ(atomic_read(&returned_sum), MANY * (MANY - 1) / 2);
	EXPECT_EQ(atomic_read(&wrong), 0);
}

RETURN_HANDLER(set_value, regs_set_return_value(regs, 4711));

static void changed_value(void)
{
	struct kretprobe rp = { .kp.symbol_name = "kst_target", .handler = set_value };

	EXPECT_EQ(register_kretprobe(&rp), 0);
	EXPECT_EQ(kst_target(1), 4711);
	unregister_kretprobe(&rp);
	EXPECT_EQ(kst_target(1), 4);
}

static int odd_only(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	on_entry(ri, regs);
	return !(regs->di & 1);
}
NOKPROBE_SYMBOL(odd_only);

/* An entry handler that does not want the return; the instance is free again. */
static void not_this_one(void)
{
	struct kretprobe rp = RET(kst_target, .maxactive = 1);
	int i;

	clear();
	rp.entry_handler = odd_only;
	EXPECT_EQ(register_kretprobe(&rp), 0);
	for (i = 0; i < MANY; i++)
		kst_target(i);
	unregister_kretprobe(&rp);
	EXPECT_EQ(atomic_read(&entries), MANY);
	EXPECT_EQ(atomic_read(&returns), MANY / 2);
	EXPECT_EQ(rp.nmissed, 0);
}

static int (*recurse_by)(int n);

static noinline __noclone int recurse(int n)
{
	return n ? READ_ONCE(recurse_by)(n - 1) + 1 : 0;
}

static noinline __noclone int outer(int n)
{
	return READ_ONCE(recurse_by)(n) + 100;
}

static void recursive(void)
{
	struct kretprobe rp = RET(recurse, .maxactive = 20);

	recurse_by = recurse;
	clear();
	EXPECT_EQ(register_kretprobe(&rp), 0);
	EXPECT_EQ(recurse(9), 9);
	EXPECT_EQ(atomic_read(&returns), 10);
	EXPECT_EQ(atomic_read(&returned_sum), 45);
	EXPECT_EQ(rp.nmissed, 0);
	unregister_kretprobe(&rp);
	EXPECT_EQ(atomic_read(&wrong), 0);
}

/* More calls than instances: missed calls are counted, and return as they should. */
static void missed(void)
{
	struct kretprobe rp = RET(recurse, .maxactive = 3);

	recurse_by = recurse;
	clear();
	EXPECT_EQ(register_kretprobe(&rp), 0);
	EXPECT_EQ(rp.maxactive, 3);
	EXPECT_EQ(recurse(9), 9);
	EXPECT_EQ(atomic_read(&returns), 3);
	EXPECT_EQ(rp.nmissed, 7);
	/* the first three */
	EXPECT_EQ(atomic_read(&returned_sum), 9 + 8 + 7);
	EXPECT_EQ(recurse(2), 2);
	EXPECT_EQ(atomic_read(&returns), 6);
	EXPECT_EQ(rp.nmissed, 7);
	unregister_kretprobe(&rp);
}

/* One function calls the other, and one has two probes. */
static void nested(void)
{
	struct kretprobe a = RET(recurse), b = RET(recurse), c = RET(outer);
	struct kretprobe *all[] = { &a, &b, &c };

	recurse_by = recurse;
	clear();
	EXPECT_EQ(register_kretprobes(all, 3), 0);
	EXPECT_EQ(outer(2), 102);
	EXPECT_EQ(atomic_read(&entries), 7);
	EXPECT_EQ(atomic_read(&returns), 7);
	EXPECT_EQ(atomic_read(&returned_sum), 2 * (0 + 1 + 2) + 102);
	EXPECT_EQ(disable_kretprobe(&b), 0);
	EXPECT_EQ(outer(2), 102);
	EXPECT_EQ(atomic_read(&returns), 11);
	EXPECT_EQ(enable_kretprobe(&b), 0);
	EXPECT_EQ(outer(2), 102);
	EXPECT_EQ(atomic_read(&returns), 18);
	unregister_kretprobes(all, 3);
	EXPECT_EQ(outer(2), 102);
	EXPECT_EQ(atomic_read(&returns), 18);
	EXPECT_EQ(atomic_read(&wrong), 0);
	EXPECT_EQ(a.nmissed + b.nmissed + c.nmissed, 0);
}

static DECLARE_COMPLETION(may_return);
static atomic_t inside, came_back;

static noinline __noclone int sleeps(int n)
{
	atomic_inc(&inside);
	wait_for_completion(&may_return);
	return n + 1;
}

static int sleeper(void *data)
{
	int n = (long)data;

	if (sleeps(n) == n + 1)
		atomic_inc(&came_back);
	return 0;
}

#define SLEEPERS 8

static void start_sleepers(void)
{
	long i;

	reinit_completion(&may_return);
	atomic_set(&inside, 0);
	atomic_set(&came_back, 0);
	for (i = 0; i < SLEEPERS; i++)
		EXPECT(!IS_ERR(kthread_run(sleeper, (void *)i, "kst_sleeper")));
	while (atomic_read(&inside) < SLEEPERS)
		msleep(20);
}

static void wake_sleepers(void)
{
	int tries;

	complete_all(&may_return);
	for (tries = 0; atomic_read(&came_back) < SLEEPERS && tries < 3000; tries++)
		msleep(20);
	EXPECT_EQ(atomic_read(&came_back), SLEEPERS);
}

/* Registers @rp, and many tasks go in. */
static void begin_sleeping(struct kretprobe *rp)
{
	clear();
	EXPECT_EQ(register_kretprobe(rp), 0);
	start_sleepers();
	EXPECT_EQ(atomic_read(&entries), SLEEPERS);
}

/* Many tasks inside at once. */
static void sleeping(void)
{
	struct kretprobe rp = RET(sleeps);

	begin_sleeping(&rp);
	EXPECT_EQ(atomic_read(&returns), 0);
	wake_sleepers();
	EXPECT_EQ(atomic_read(&returns), SLEEPERS);
	EXPECT_EQ(atomic_read(&returned_sum), SLEEPERS * (SLEEPERS + 1) / 2);
	EXPECT_EQ(atomic_read(&wrong), 0);
	unregister_kretprobe(&rp);
}

/*
 * The probe is unregistered while tasks are inside: they return, and no handler is called
 * (CVE-2023-53557: the memory that the return needs was freed too early).
 */
static void unregister_live(void)
{
	struct kretprobe rp = RET(sleeps);

	begin_sleeping(&rp);
	unregister_kretprobe(&rp);
	memset(&rp, 0x5a, sizeof(rp));
	wake_sleepers();
	EXPECT_EQ(atomic_read(&returns), 0);
	EXPECT_EQ(atomic_read(&wrong), 0);
}

static noinline __noclone int never_returns(struct completion *done)
{
	kthread_complete_and_exit(done, 0);
	return 1;
}

static int exits(void *done)
{
	return never_returns(done);
}

/* Tasks that exit inside give the instance back, if not at once. */
static void task_exits_inside(void)
{
	struct kretprobe rp = RET(never_returns, .maxactive = 1);
	int i, tries;

	clear();
	EXPECT_EQ(register_kretprobe(&rp), 0);
	for (i = 0; i < 5; i++) {
		DECLARE_COMPLETION_ONSTACK(done);
		int before = atomic_read(&entries);

		/* The instance of the last one is free again after a grace period or two. */
		for (tries = 0; atomic_read(&entries) == before && tries < 50; tries++) {
			reinit_completion(&done);
			if (!EXPECT(!IS_ERR(kthread_run(exits, &done, "kst_exits"))))
				break;
			wait_for_completion(&done);
			synchronize_rcu();
			msleep(20);
		}
		EXPECT_EQ(atomic_read(&entries), before + 1);
	}
	EXPECT_EQ(atomic_read(&returns), 0);
	unregister_kretprobe(&rp);
}

#define DEPTH 16
static unsigned long trace[DEPTH];
static unsigned int trace_size;

static noinline __noclone int traced(int n)
{
	trace_size = stack_trace_save(trace, DEPTH, 0);
	return n + 1;
}

static noinline __noclone int calls_traced(int n)
{
	return traced(n) + 1;
}

static noinline __noclone int calls_calls_traced(int n)
{
	return calls_traced(n) + 1;
}

/* Functions that are called at this moment, without the offsets. */
static unsigned int functions(char (*names)[64])
{
	unsigned int i;

	for (i = 0; i < trace_size; i++)
		snprintf(names[i], sizeof(names[i]), "%ps", (void *)trace[i]);
	return trace_size;
}

/* A stack trace shows the callers, as if their returns were not probed. */
static void stack_trace(void)
{
	static char plain[DEPTH][64], probed[DEPTH][64];
	struct kretprobe a = RET(traced), b = RET(calls_traced), c = RET(calls_calls_traced), d = RET(traced);
	struct kretprobe *all[] = { &a, &b, &c, &d };
	unsigned int i, count;

	clear();
	EXPECT_EQ(calls_calls_traced(1), 4);
	count = functions(plain);
	EXPECT(count > 3);
	EXPECT_EQ(register_kretprobes(all, 4), 0);
	EXPECT_EQ(calls_calls_traced(1), 4);
	EXPECT_EQ(functions(probed), count);
	for (i = 0; i < count; i++)
		if (!EXPECT(!strcmp(plain[i], probed[i])))
			case_say("%s, not %s\n", probed[i], plain[i]);
	unregister_kretprobes(all, 4);
	EXPECT_EQ(atomic_read(&returns), 4);
}

static int trace_in_handler(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	atomic_inc(&returns);
	trace_size = stack_trace_save(trace, DEPTH, 0);
	if (get_kretprobe_retaddr(ri) != regs->ip)
		atomic_inc(&wrong);
	return 0;
}
NOKPROBE_SYMBOL(trace_in_handler);

/* In the handler, it shows those that are returned to. */
static void stack_trace_in_handler(void)
{
	struct kretprobe rp = RET(traced), b = RET(calls_traced);
	static char names[DEPTH][64];
	unsigned int i, count;

	clear();
	rp.handler = trace_in_handler;
	EXPECT_EQ(register_kretprobe(&b), 0);
	EXPECT_EQ(register_kretprobe(&rp), 0);
	EXPECT_EQ(calls_calls_traced(1), 4);
	count = functions(names);
	for (i = 0; i < count && strcmp(names[i], "calls_traced [kprobes_selftest]"); i++)
		;
	EXPECT(i + 1 < count && !strcmp(names[i + 1], "calls_calls_traced [kprobes_selftest]"));
	unregister_kretprobe(&rp);
	unregister_kretprobe(&b);
	EXPECT_EQ(atomic_read(&returns), 2);
	EXPECT_EQ(atomic_read(&wrong), 0);
}

/* Ends with a jump: one return for both. */
static noinline int ends_with_call(int a)
{
	return kst_target(a);
}

/* Both return to the same place, and not to a trampoline. */
static void tail_call(void)
{
	struct kretprobe outer = RET(ends_with_call), inner = RET(kst_target);

	clear();
	outer.handler = trace_in_handler;
	inner.handler = trace_in_handler;
	EXPECT_EQ(register_kretprobe(&outer), 0);
	EXPECT_EQ(register_kretprobe(&inner), 0);
	EXPECT_EQ(ends_with_call(1), 4);
	unregister_kretprobe(&inner);
	unregister_kretprobe(&outer);
	EXPECT_EQ(atomic_read(&returns), 2);
	EXPECT_EQ(atomic_read(&wrong), 0);
}

const struct test_case kst_ret_cases[] = {
	{ "ret.value", value },
	{ "ret.by_breakpoint", by_breakpoint },
	{ "ret.changed_value", changed_value },
	{ "ret.entry_handler_declines", not_this_one },
	{ "ret.recursive", recursive },
	{ "ret.missed", missed },
	{ "ret.nested", nested },
	{ "ret.sleeping", sleeping },
	{ "ret.unregister_live", unregister_live },
	{ "ret.task_exits_inside", task_exits_inside },
	{ "ret.stack_trace", stack_trace },
	{ "ret.stack_trace_in_handler", stack_trace_in_handler },
	{ "ret.tail_call", tail_call },
	{ }
};
