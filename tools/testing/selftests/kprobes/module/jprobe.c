// SPDX-License-Identifier: GPL-2.0
/* Jprobes: values that handlers see, their ways to end, and the state after them. */
#include <linux/irqflags.h>
#include <linux/jprobes.h>
#include <linux/ptrace.h>
#include <linux/stacktrace.h>
#include <linux/stdarg.h>
#include <linux/string.h>
#include <linux/vmalloc.h>

#include "kprobes_selftest.h"
#include "jprobe_calls.h"

#define JPROBE(function, handler) { .kp.addr = (kprobe_opcode_t *)(function), .entry = (handler) }

static long seen[12];
static unsigned int calls;

/* Records the values that a handler sees. */
static void saw(const long *values, unsigned int count)
{
	memcpy(seen, values, count * sizeof(*values));
	calls++;
}

#define SAW(...)					\
	({						\
		const long __values[] = { __VA_ARGS__ };	\
							\
		saw(__values, ARRAY_SIZE(__values));	\
	})

/* Registers a jprobe for the calls of a case. */
static bool begin(struct jprobe *jp)
{
	memset(seen, 0, sizeof(seen));
	calls = 0;
	return EXPECT_EQ(register_jprobe(jp), 0);
}

static void end(struct jprobe *jp, unsigned int expected)
{
	unregister_jprobe(jp);
	EXPECT_EQ(calls, expected);
	EXPECT_EQ(jp->kp.nmissed, 0);
}

/* The arguments of the last call are 1, 2 and so on. */
static void saw_first(unsigned int count)
{
	unsigned int i;

	for (i = 0; i < count; i++)
		EXPECT_EQ(seen[i], i + 1);
}

static noinline __noclone long six(long a, int b, char c, void *d, unsigned long e, short f)
{
	barrier();
	return a + b + c + (long)d + e + f;
}

static long on_six(long a, int b, char c, void *d, unsigned long e, short f)
{
	SAW(a, b, c, (long)d, e, f);
	jprobe_return();
	calls += 100;
	return 0;
}

static void registers(void)
{
	struct jprobe jp = JPROBE(six, on_six);

	if (!begin(&jp))
		return;
	EXPECT(kprobe_ftrace(&jp.kp));
	EXPECT_EQ(six(1L << 40, -2, 'c', (void *)4, 5, -6), (1L << 40) - 2 + 'c' + 4 + 5 - 6);
	EXPECT_EQ(seen[0], 1L << 40);
	EXPECT_EQ(seen[1], -2);
	EXPECT_EQ(seen[2], 'c');
	EXPECT_EQ(seen[3], 4);
	EXPECT_EQ(seen[4], 5);
	EXPECT_EQ(seen[5], -6);
	end(&jp, 1);
	six(1, 2, 3, NULL, 5, 6);
	EXPECT_EQ(calls, 1);
}

static noinline __noclone long twelve(long a, long b, long c, long d, long e, long f, long g, long h, long i, long j,
				      long k, long l)
{
	barrier();
	return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h + 9 * i + 10 * j + 11 * k + 12 * l;
}

#define CALL_TWELVE()	twelve(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)
#define TWELVE		(12 * 13 * 25 / 6)

static long on_twelve(long a, long b, long c, long d, long e, long f, long g, long h, long i, long j, long k, long l)
{
	SAW(a, b, c, d, e, f, g, h, i, j, k, l);
	jprobe_return();
	return 0;
}

static void stack(void)
{
	struct jprobe jp = JPROBE(twelve, on_twelve);

	if (!begin(&jp))
		return;
	EXPECT_EQ(CALL_TWELVE(), TWELVE);
	saw_first(12);
	end(&jp, 1);
}

struct big {
	long a, b, c;
	char name[16];
};

static noinline __noclone long by_value(long first, struct big big, long second, long *where)
{
	barrier();
	return first + big.a + big.b + big.c + big.name[1] + second + *where;
}

static long on_by_value(long first, struct big big, long second, long *where)
{
	SAW(first, big.a, big.b, big.c, big.name[1], second, *where);
	jprobe_return();
	return 0;
}

static void structure(void)
{
	struct jprobe jp = JPROBE(by_value, on_by_value);
	struct big big = { 2, 3, 4, "name" };
	static const long expected[] = { 1, 2, 3, 4, 'a', 6, 7 };
	long where = 7;
	unsigned int i;

	if (!begin(&jp))
		return;
	EXPECT_EQ(by_value(1, big, 6, &where), 1 + 2 + 3 + 4 + 'a' + 6 + 7);
	for (i = 0; i < ARRAY_SIZE(expected); i++)
		EXPECT_EQ(seen[i], expected[i]);
	end(&jp, 1);
}

static noinline __noclone long variadic(int count, ...)
{
	long sum = 0;
	va_list args;

	va_start(args, count);
	while (count--)
		sum = 2 * sum + va_arg(args, long);
	va_end(args);
	return sum;
}

static long on_variadic(int count, ...)
{
	va_list args;
	int i;

	va_start(args, count);
	for (i = 0; i < count; i++)
		seen[i] = va_arg(args, long);
	va_end(args);
	calls++;
	return 0;
}

static void varargs(void)
{
	struct jprobe jp = JPROBE(variadic, on_variadic);

	if (!begin(&jp))
		return;
	EXPECT_EQ(variadic(8, 1L, 2L, 3L, 4L, 5L, 6L, 7L, 8L), 502);
	saw_first(8);
	end(&jp, 1);
}

/* Everything that a handler may think it owns. */
static long changes_twelve(long a, long b, long c, long d, long e, long f, long g, long h, long i, long j, long k, long l)
{
	long *on_stack[] = { &g, &h, &i, &j, &k, &l };
	unsigned int n;

	a = b = c = d = e = f = -1;
	OPTIMIZER_HIDE_VAR(a);
	for (n = 0; n < ARRAY_SIZE(on_stack); n++)
		WRITE_ONCE(*on_stack[n], -1);
	calls++;
	jprobe_return();
	return -1;
}

static long changes_by_value(long first, struct big big, long second, long *where)
{
	memset(&big, 0xff, sizeof(big));
	barrier_data(&big);
	calls++;
	return -1;
}

static void changed(void)
{
	struct jprobe jp = JPROBE(twelve, changes_twelve), other = JPROBE(by_value, changes_by_value);
	struct big big = { 2, 3, 4, "name" };
	long where = 7;

	if (!begin(&jp))
		return;
	EXPECT_EQ(CALL_TWELVE(), TWELVE);
	end(&jp, 1);
	if (!begin(&other))
		return;
	EXPECT_EQ(by_value(1, big, 6, &where), 1 + 2 + 3 + 4 + 'a' + 6 + 7);
	end(&other, 1);
}

static noinline __noclone long below(int depth)
{
	char room[128];

	memset(room, depth, sizeof(room));
	barrier_data(room);
	if (!depth) {
		calls++;
		jprobe_return();
		calls += 100;
		return 0;
	}
	return below(depth - 1) + room[7];
}

static long on_six_below(long a, int b, char c, void *d, unsigned long e, short f)
{
	seen[0] = a;
	below(5);
	calls += 100;
	return 0;
}

/* Returns, after a handler that did not return normally, to its caller. */
static noinline __noclone long returns_after(long a)
{
	return six(a, 2, 3, NULL, 5, 6) + 1;
}

/* From a function that the handler has called. */
static void from_below(void)
{
	struct jprobe jp = JPROBE(six, on_six_below);
	int i;

	if (!begin(&jp))
		return;
	for (i = 0; i < 10; i++) {
		EXPECT_EQ(returns_after(i), i + 17);
		EXPECT_EQ(seen[0], i);
	}
	end(&jp, 10);
}

/* The same while the function graph tracer watches: run.sh turns it on. */
static void traced_from_below(void)
{
	from_below();
}

static long on_six_plain(long a, int b, char c, void *d, unsigned long e, short f)
{
	seen[0] = a;
	calls++;
	return a;
}

static void plain_return(void)
{
	struct jprobe jp = JPROBE(six, on_six_plain);

	if (!begin(&jp))
		return;
	EXPECT_EQ(six(8, 2, 3, NULL, 5, 6), 24);
	EXPECT_EQ(seen[0], 8);
	end(&jp, 1);
}

static unsigned int others;

PRE_HANDLER(count_pre, others++);

POST_HANDLER(count_post, others += 10);

/* Where ftrace has no place. */
static long on_bytes(long x)
{
	seen[0] = x;
	calls++;
	jprobe_return();
	return 0;
}

static void by_breakpoint(void)
{
	struct kprobe kp = { .addr = kst_bytes, .pre_handler = count_pre, .post_handler = count_post };
	struct jprobe jp = JPROBE(kst_bytes, on_bytes), behind_endbr = JPROBE(kst_endbr, on_bytes);
	struct jprobe *both[] = { &jp, &behind_endbr };
	int i;

	calls = 0;
	others = 0;
	if (!EXPECT_EQ(register_jprobes(both, 2), 0))
		return;
	EXPECT_EQ(register_kprobe(&kp), 0);
	EXPECT(!kprobe_ftrace(&jp.kp));
	for (i = 0; i < 10; i++) {
		EXPECT_EQ(kst_call_bytes(i), i);
		EXPECT_EQ(seen[0], i);
		EXPECT_EQ(kst_call_endbr(i + 100), i + 109);
		EXPECT_EQ(seen[0], i + 100);
	}
	unregister_kprobe(&kp);
	unregister_jprobes(both, 2);
	EXPECT_EQ(calls, 20);
	EXPECT_EQ(others, 110);
}

RETURN_HANDLER(count_return, others += regs_return_value(regs) == 24 ? 100 : 10000);

static long on_six_again(long a, int b, char c, void *d, unsigned long e, short f)
{
	seen[1] = a;
	calls += 10;
	jprobe_return();
	return 0;
}

/* Jprobes, a kprobe and a kretprobe on one function, in any order. */
static void together(void)
{
	struct jprobe jp = JPROBE(six, on_six_plain), again = JPROBE(six, on_six_again);
	struct kprobe kp = { .addr = (kprobe_opcode_t *)six, .pre_handler = count_pre };
	struct kretprobe rp = { .kp.addr = (kprobe_opcode_t *)six, .handler = count_return };

	others = 0;
	EXPECT_EQ(register_kretprobe(&rp), 0);
	if (!begin(&jp))
		goto out;
	EXPECT_EQ(register_kprobe(&kp), 0);
	EXPECT_EQ(register_jprobe(&again), 0);
	EXPECT_EQ(six(8, 2, 3, NULL, 5, 6), 24);
	EXPECT_EQ(calls, 11);
	EXPECT_EQ(others, 101);
	EXPECT_EQ(seen[0], 8);
	EXPECT_EQ(seen[1], 8);
	unregister_jprobe(&again);
	EXPECT_EQ(six(8, 2, 3, NULL, 5, 6), 24);
	unregister_kprobe(&kp);
	end(&jp, 12);
	EXPECT_EQ(others, 202);
out:
	unregister_kretprobe(&rp);
}

static long calls_twelve(long a, int b, char c, void *d, unsigned long e, short f)
{
	seen[0] = CALL_TWELVE();
	calls++;
	jprobe_return();
	return 0;
}

/* The handler of a jprobe hits another jprobe: that hit is missed, and counted. */
static void nested(void)
{
	struct jprobe jp = JPROBE(six, calls_twelve), inner = JPROBE(twelve, on_twelve);

	if (!begin(&jp))
		return;
	EXPECT_EQ(register_jprobe(&inner), 0);
	EXPECT_EQ(six(8, 2, 3, NULL, 5, 6), 24);
	EXPECT_EQ(seen[0], TWELVE);
	EXPECT_EQ(inner.kp.nmissed, 1);
	EXPECT_EQ(calls, 1);
	/* and then it is there again */
	EXPECT_EQ(CALL_TWELVE(), TWELVE);
	EXPECT_EQ(seen[11], 12);
	unregister_jprobe(&inner);
	end(&jp, 2);
}

struct kst_state kst_jprobe_seen;

/* Has all registers changed. */
static void clobbers(void)
{
	calls++;
	asm volatile("std\n\tcld\n\tstc" : : : "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12",
		     "r13", "r14", "r15", "cc", "memory");
	jprobe_return();
}

static long on_target(int a)
{
	clobbers();
	return 0;
}

#define STATUS_FLAGS	0xcd5

/*
 * The probed function sees the registers of its caller, and preserves them, on both kinds of
 * places.
 */
static void preserved(void)
{
	struct jprobe jp = JPROBE(kst_store, clobbers), at_ftrace = JPROBE(kst_target, on_target);
	struct kst_state in = { .saved = { 1, 2, 3, 4, 5, 6 }, .scratch = { 7, 8, 9 } }, out;
	static const unsigned long flags[] = { 0x202, 0x202 | STATUS_FLAGS };
	unsigned int i;

	if (!begin(&jp))
		return;
	EXPECT(!kprobe_ftrace(&jp.kp));
	for (i = 0; i < ARRAY_SIZE(flags); i++) {
		in.flags = flags[i];
		memset(&kst_jprobe_seen, 0, sizeof(kst_jprobe_seen));
		kst_call_in(&in, &out, kst_store);
		EXPECT(!memcmp(in.saved, kst_jprobe_seen.saved, sizeof(in.saved)));
		EXPECT(!memcmp(in.scratch, kst_jprobe_seen.scratch, sizeof(in.scratch)));
		EXPECT_EQ(kst_jprobe_seen.flags, in.flags);
		EXPECT(!memcmp(in.saved, out.saved, sizeof(in.saved)));
		/* A return that counts the depth of calls changes them. */
		if (!cpu_feature_enabled(X86_FEATURE_CALL_DEPTH))
			EXPECT_EQ(out.flags, in.flags);
	}
	end(&jp, ARRAY_SIZE(flags));
	if (!begin(&at_ftrace))
		return;
	EXPECT(kprobe_ftrace(&at_ftrace.kp));
	in.flags = 0x202;
	kst_call_in(&in, &out, kst_target);
	EXPECT(!memcmp(in.saved, out.saved, sizeof(in.saved)));
	end(&at_ftrace, 1);
}

static void on_store(long a, long b, long c, long d, long e, long f, long g, long h, long i, long j, long k, long l)
{
	SAW(a, b, c, d, e, f, g, h, i, j, k, l);
	jprobe_return();
}

/* The stack ends before the arguments that might be there. */
static void stack_ends(void)
{
	struct jprobe jp = JPROBE(kst_store, on_store);
	const unsigned int size = 4 * PAGE_SIZE;
	long *base = vmalloc(size), *top = base + size / sizeof(long);
	unsigned int words, i;

	if (!EXPECT(base))
		return;
	for (words = 0; words <= 6 && begin(&jp); words++) {
		unsigned long flags;

		for (i = 1; i <= words; i++)
			top[-(int)i] = i;
		local_irq_save(flags);
		kst_call_on(top - words, kst_store);
		local_irq_restore(flags);
		for (i = 0; i < 6; i++)
			EXPECT_EQ(seen[6 + i], i < words ? words - i : 0);
		end(&jp, 1);
	}
	vfree(base);
}

static char trace[16][64];
static unsigned int trace_size;

static long on_six_trace(long a, int b, char c, void *d, unsigned long e, short f)
{
	unsigned long entries[16];
	unsigned int i;

	trace_size = stack_trace_save(entries, ARRAY_SIZE(entries), 0);
	for (i = 0; i < trace_size; i++)
		snprintf(trace[i], sizeof(trace[i]), "%ps", (void *)entries[i]);
	calls++;
	jprobe_return();
	return 0;
}

/* Without an ftrace site, but with the data that the unwinder needs. */
static noinline __noclone notrace long no_site(long x)
{
	barrier();
	return x;
}

static long on_no_site_trace(long x)
{
	on_six_trace(0, 0, 0, NULL, 0, 0);
	return 0;
}

static noinline __noclone long calls_six(long a)
{
	return six(a, 2, 3, NULL, 5, 6) + no_site(1);
}

static noinline __noclone long calls_calls_six(long a)
{
	return calls_six(a) + 1;
}

/* A stack trace of a handler continues to the callers of the probed function. */
static void stack_trace(void)
{
	struct jprobe at_ftrace = JPROBE(six, on_six_trace), at_breakpoint = JPROBE(no_site, on_no_site_trace);
	struct jprobe *all[] = { &at_ftrace, &at_breakpoint };
	unsigned int i, j;

	for (i = 0; i < ARRAY_SIZE(all); i++) {
		if (!begin(all[i]))
			return;
		EXPECT_EQ(kprobe_ftrace(&all[i]->kp), i == 0);
		EXPECT_EQ(calls_calls_six(8), 26);
		for (j = 0; j < trace_size && strcmp(trace[j], "calls_six [kprobes_selftest]"); j++)
			;
		if (!EXPECT(j + 1 < trace_size && !strcmp(trace[j + 1], "calls_calls_six [kprobes_selftest]")))
			for (j = 0; j < trace_size; j++)
				case_say("%s\n", trace[j]);
		end(all[i], 1);
	}
}

const struct test_case kst_jprobe_cases[] = {
	{ "jprobe.registers", registers },
	{ "jprobe.stack", stack },
	{ "jprobe.structure", structure },
	{ "jprobe.varargs", varargs },
	{ "jprobe.changed", changed },
	{ "jprobe.from_below", from_below },
	{ "jprobe.traced_from_below", traced_from_below },
	{ "jprobe.plain_return", plain_return },
	{ "jprobe.by_breakpoint", by_breakpoint },
	{ "jprobe.together", together },
	{ "jprobe.nested", nested },
	{ "jprobe.preserved", preserved },
	{ "jprobe.stack_ends", stack_ends },
	{ "jprobe.stack_trace", stack_trace },
	{ }
};
