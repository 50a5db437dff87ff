// SPDX-License-Identifier: GPL-2.0
/*
 * Probes on functions that a tracer executes for each traced function. run.sh has the tracer on,
 * for the breakpoint handlers among others.
 */
#include <linux/array_size.h>
#include <linux/irq.h>

#include "jump.h"

static const char * const names[] = {
	"function_trace_call", "ftrace_graph_func", "function_graph_enter_regs", "ftrace_return_to_handler",
	"trace_graph_entry", "trace_graph_return", "__trace_graph_entry", "prepare_ftrace_return",
};

/* The tracer traces the functions that handlers call, and so hits its own probes within them. */
PRE_HANDLER(on_pre, container_of(p, struct kst_hit, kp)->pre++; irq_get_irq_data(0));
POST_HANDLER(on_post, container_of(p, struct kst_hit, kp)->post++);

/* Hits by all of the kernel's code, the handlers included: the latter are missed. */
static void probe_all(kprobe_post_handler_t post)
{
	static struct kst_hit hits[ARRAY_SIZE(names)];
	unsigned int i, there = 0;
	unsigned long pre = 0, missed = 0;
	int err;

	for (i = 0; i < ARRAY_SIZE(names); i++) {
		hits[i] = (struct kst_hit){
			.kp = { .symbol_name = names[i], .pre_handler = on_pre, .post_handler = post },
		};
		err = register_kprobe(&hits[i].kp);
		/* Some the compiler may have inlined. */
		if (err) {
			EXPECT_EQ(err, -ENOENT);
			hits[i].kp.addr = NULL;
			continue;
		}
		there++;
	}
	for (i = 0; i < 50; i++)
		irq_get_irq_data(0);
	for (i = 0; i < ARRAY_SIZE(names); i++) {
		if (!hits[i].kp.addr)
			continue;
		unregister_kprobe(&hits[i].kp);
		pre += hits[i].pre;
		missed += hits[i].kp.nmissed;
	}
	EXPECT(there >= 3);
	EXPECT(pre >= 50);
	EXPECT(missed > 0);
}

static void before(void)
{
	probe_all(NULL);
}

static void around(void)
{
	probe_all(on_post);
}

const struct test_case kst_tracer_cases[] = {
	{ "context.function_tracer", before },
	{ "context.function_tracer_around", around },
	{ "context.graph_tracer", before },
	{ "context.graph_tracer_around", around },
	{ }
};
