// SPDX-License-Identifier: GPL-2.0
/*
 * The operations that are measured, LOOPS times each: places without an exit, and the same work as
 * an exit, behind a static call and as a tracepoint's probe.
 */
#include <linux/percpu.h>
#include <linux/static_call.h>
#include <linux/tracepoint.h>

#include "bench.h"

static DEFINE_PER_CPU(unsigned long, sum_a);
static DEFINE_PER_CPU(unsigned long, sum_b);

/* The work: nothing, or this. */
static __always_inline void add(unsigned long a, unsigned long b)
{
	this_cpu_add(sum_a, a);
	this_cpu_add(sum_b, b);
}

static noinline void call_empty(unsigned long a, unsigned long b)
{
}

static noinline void call_add(unsigned long a, unsigned long b)
{
	add(a, b);
}

static void probe_empty(void *data, unsigned long a, unsigned long b)
{
}

static void probe_add(void *data, unsigned long a, unsigned long b)
{
	add(a, b);
}

static GKH_EXIT_0VAR(exit_empty, self)
{
	return GKH_CONTINUE;
}

static GKH_EXIT_2VAR(exit_add, self, a, b)
{
	add(a, b);
	return GKH_CONTINUE;
}

static GKH_EXIT_2VAR(exit_add_rw, self, a, b)
{
	add(*(unsigned long *)a, *(unsigned long *)b);
	return GKH_CONTINUE;
}

static GKH_EXIT_2VAR_RET(exit_return, self, ret, a, b)
{
	return gkh_set_return(ret, 5);
}

#define OPERATION(name, op)							\
static noinline void run_##name(const struct bench_args *args)			\
{										\
	unsigned long __maybe_unused a = args->a, b = args->b, c = args->c;	\
	unsigned long __maybe_unused d = args->d, e = args->e;			\
	int i;									\
										\
	for (i = 0; i < LOOPS; i++) {						\
		op;								\
		barrier();							\
	}									\
}

/* An operation with a hook of its own: its parameters, and how they are passed. */
#define HOOK_OPERATION(name, n, access, context, params, op)	\
	DECLARE_GKHOOK(bench_##name, n, access);		\
	DEFINE_GKHOOK(bench_##name, context, params);		\
	OPERATION(name, op)

/*
 * A function around a place, as most places are in a function. Its other code has to be the same as
 * without the place.
 */
#define FUNCTION(name, place)							\
static noinline unsigned long function_##name(unsigned long a, unsigned long b)	\
{										\
	place;									\
	/* So that it is called each time, with its result or without. */	\
	asm volatile("");							\
	return a ^ b;								\
}										\
OPERATION(function_##name, asm volatile("" : : "r" (function_##name(a, b))))

#define HOOK_FUNCTION(name, access, place)				\
	DECLARE_GKHOOK(bench_function_##name, 2, access);		\
	DEFINE_GKHOOK(bench_function_##name, GKH_TASK, "a, b");		\
	FUNCTION(name, place)

/* A tracepoint of its own, and how it gets its probes. */
#define TRACE_OPERATION(name, probe)						\
	DECLARE_TRACE(bench_##name, TP_PROTO(unsigned long a, unsigned long b),	\
		      TP_ARGS(a, b));						\
	DEFINE_TRACE(bench_##name##_tp, TP_PROTO(unsigned long a, unsigned long b),	\
		     TP_ARGS(a, b));						\
	static int probes_##name(long count)					\
	{									\
		static long have;						\
		int err = 0;							\
										\
		for (; have < count && !err; have += !err)			\
			err = register_trace_bench_##name##_tp(probe, (void *)have);	\
		for (; have > count; have--)					\
			unregister_trace_bench_##name##_tp(probe, (void *)(have - 1));	\
		tracepoint_synchronize_unregister();				\
		return err;							\
	}									\
	OPERATION(name, trace_bench_##name##_tp(a, b))

void bench_run_empty(const struct bench_args *args)
{
	int i;

	for (i = 0; i < LOOPS; i++)
		barrier();
}

OPERATION(no_site, barrier())
HOOK_OPERATION(dormant_0, 0, GKH_RO, GKH_TASK, "", GKHOOK_0VAR(bench_dormant_0))
HOOK_OPERATION(dormant_2, 2, GKH_RO, GKH_TASK, "a, b", GKHOOK_2VAR_RO(bench_dormant_2, a, b))
HOOK_OPERATION(dormant_5, 5, GKH_RO, GKH_TASK, "a, b, c, d, e",
	       GKHOOK_5VAR_RO(bench_dormant_5, a, b, c, d, e))

FUNCTION(no_site, barrier())
HOOK_FUNCTION(dormant, GKH_RO, GKHOOK_2VAR_RO(bench_function_dormant, a, b))
HOOK_FUNCTION(dormant_rw, GKH_RW, GKHOOK_2VAR_RW(bench_function_dormant_rw, a, b))
HOOK_FUNCTION(dormant_ret, GKH_RO_RET,
	      GKHOOK_2VAR_RO_RET(unsigned long, bench_function_dormant_ret, a, b))
HOOK_FUNCTION(add, GKH_RO, GKHOOK_2VAR_RO(bench_function_add, a, b))
HOOK_FUNCTION(add_rw, GKH_RW, GKHOOK_2VAR_RW(bench_function_add_rw, a, b))
HOOK_FUNCTION(add_ret, GKH_RO_RET, GKHOOK_2VAR_RO_RET(unsigned long, bench_function_add_ret, a, b))
HOOK_FUNCTION(return, GKH_RO_RET, GKHOOK_2VAR_RO_RET(unsigned long, bench_function_return, a, b))

DECLARE_TRACE(bench_function, TP_PROTO(unsigned long a, unsigned long b), TP_ARGS(a, b));
DEFINE_TRACE(bench_function_tp, TP_PROTO(unsigned long a, unsigned long b), TP_ARGS(a, b));
FUNCTION(tracepoint, trace_bench_function_tp(a, b))

DEFINE_STATIC_CALL(bench_call_empty, call_empty);
DEFINE_STATIC_CALL(bench_call_add, call_add);
OPERATION(static_call_empty, static_call(bench_call_empty)(a, b))
OPERATION(static_call_add, static_call(bench_call_add)(a, b))
FUNCTION(static_call_add, static_call(bench_call_add)(a, b))

TRACE_OPERATION(tracepoint_dormant, probe_empty)
TRACE_OPERATION(tracepoint_empty, probe_empty)
TRACE_OPERATION(tracepoint_add, probe_add)
TRACE_OPERATION(tracepoint_add_2, probe_add)
TRACE_OPERATION(tracepoint_add_4, probe_add)
TRACE_OPERATION(tracepoint_add_8, probe_add)

HOOK_OPERATION(hook_empty_0, 0, GKH_RO, GKH_TASK, "", GKHOOK_0VAR(bench_hook_empty_0))
HOOK_OPERATION(hook_empty, 2, GKH_RO, GKH_TASK, "a, b", GKHOOK_2VAR_RO(bench_hook_empty, a, b))
HOOK_OPERATION(hook_empty_5, 5, GKH_RO, GKH_TASK, "a, b, c, d, e",
	       GKHOOK_5VAR_RO(bench_hook_empty_5, a, b, c, d, e))
HOOK_OPERATION(hook_add, 2, GKH_RO, GKH_TASK, "a, b", GKHOOK_2VAR_RO(bench_hook_add, a, b))
HOOK_OPERATION(hook_add_2, 2, GKH_RO, GKH_TASK, "a, b", GKHOOK_2VAR_RO(bench_hook_add_2, a, b))
HOOK_OPERATION(hook_add_4, 2, GKH_RO, GKH_TASK, "a, b", GKHOOK_2VAR_RO(bench_hook_add_4, a, b))
HOOK_OPERATION(hook_add_8, 2, GKH_RO, GKH_TASK, "a, b", GKHOOK_2VAR_RO(bench_hook_add_8, a, b))
HOOK_OPERATION(hook_rw, 2, GKH_RW, GKH_TASK, "a, b", GKHOOK_2VAR_RW(bench_hook_rw, a, b))
HOOK_OPERATION(hook_irqs_off, 2, GKH_RO, GKH_TASK, "a, b", GKHOOK_2VAR_RO(bench_hook_irqs_off, a, b))
HOOK_OPERATION(hook_atomic, 2, GKH_RO, GKH_ATOMIC, "a, b", GKHOOK_2VAR_RO(bench_hook_atomic, a, b))
HOOK_OPERATION(hook_sleep, 2, GKH_RO, GKH_SLEEP, "a, b", GKHOOK_2VAR_RO(bench_hook_sleep, a, b))

#define OP(op) .name = #op, .run = run_##op
#define HOOK_OP(op) OP(op), .hook = GKHOOK(bench_##op)
#define EXIT_OP(op, n, fn) HOOK_OP(op), .exits = (n), .exit = (fn)
#define TRACE_OP(op, n) OP(op), .probes = probes_##op, .count = (n)

struct bench_op bench_ops[] = {
	{ OP(no_site) },
	{ HOOK_OP(dormant_0) },
	{ HOOK_OP(dormant_2) },
	{ HOOK_OP(dormant_5) },
	{ TRACE_OP(tracepoint_dormant, 0) },
	{ OP(static_call_empty) },
	{ OP(static_call_add) },
	{ TRACE_OP(tracepoint_empty, 1) },
	{ TRACE_OP(tracepoint_add, 1) },
	{ TRACE_OP(tracepoint_add_2, 2) },
	{ TRACE_OP(tracepoint_add_4, 4) },
	{ TRACE_OP(tracepoint_add_8, 8) },
	{ EXIT_OP(hook_empty_0, 1, exit_empty) },
	{ EXIT_OP(hook_empty, 1, exit_empty) },
	{ EXIT_OP(hook_empty_5, 1, exit_empty) },
	{ EXIT_OP(hook_add, 1, exit_add) },
	{ EXIT_OP(hook_add_2, 2, exit_add) },
	{ EXIT_OP(hook_add_4, 4, exit_add) },
	{ EXIT_OP(hook_add_8, 8, exit_add) },
	{ EXIT_OP(hook_rw, 1, exit_add_rw) },
	{ EXIT_OP(hook_irqs_off, 1, exit_add), .flags = GKH_IRQS_OFF },
	{ EXIT_OP(hook_atomic, 1, exit_add) },
	{ EXIT_OP(hook_sleep, 1, exit_add) },
	{ OP(function_no_site) },
	{ OP(function_static_call_add) },
	{ OP(function_tracepoint) },
	{ HOOK_OP(function_dormant) },
	{ HOOK_OP(function_dormant_rw) },
	{ HOOK_OP(function_dormant_ret) },
	{ EXIT_OP(function_add, 1, exit_add) },
	{ EXIT_OP(function_add_rw, 1, exit_add_rw) },
	{ EXIT_OP(function_add_ret, 1, exit_add) },
	{ EXIT_OP(function_return, 1, exit_return) },
	{ }
};
