// SPDX-License-Identifier: GPL-2.0
/*
 * Running calls of jprobes' handlers, the innermost first, and the repairs needed when
 * jprobe_return() skips the functions in between. Contexts: any that cannot change the CPU, NMI
 * included.
 */
#include <linux/bug.h>
#include <linux/build_bug.h>
#include <linux/export.h>
#include <linux/percpu.h>
#include <linux/sched.h>
#include <linux/stddef.h>
#include <linux/thread_info.h>

#include "../../../rust/sys/mm/helpers.h"
#include "frame.h"

static_assert(offsetof(struct ferro_jprobe_frame, sp) == FERRO_JPROBE_SP);
static_assert(offsetof(struct ferro_jprobe_frame, stack) == FERRO_JPROBE_STACK);
/* Number of words that call.S passes. */
static_assert(FERRO_JPROBE_WORDS == 8);

static DEFINE_PER_CPU(struct ferro_jprobe_frame *, frames);

__kprobes notrace void ferro_jprobe_enter(struct ferro_jprobe_frame *frame)
{
	frame->previous = this_cpu_read(frames);
#ifdef CONFIG_FUNCTION_GRAPH_TRACER
	frame->graph_stack = current->curr_ret_stack;
	frame->graph_depth = current->curr_ret_depth;
#endif
	this_cpu_write(frames, frame);
}

__kprobes notrace void ferro_jprobe_leave(struct ferro_jprobe_frame *frame)
{
	this_cpu_write(frames, frame->previous);
}

__kprobes notrace struct ferro_jprobe_frame *ferro_jprobe_unwind(unsigned long sp)
{
	struct ferro_jprobe_frame *frame = this_cpu_read(frames);

	if (WARN_ONCE(!frame || sp >= frame->sp || frame->sp - sp >= THREAD_SIZE,
		      "jprobe_return() outside of a jprobe's handler"))
		return NULL;
#ifdef CONFIG_FUNCTION_GRAPH_TRACER
	/* Otherwise the next function would return to the address of a skipped one. */
	if (current->curr_ret_stack > frame->graph_stack) {
		current->curr_ret_stack = frame->graph_stack;
		current->curr_ret_depth = frame->graph_depth;
	}
#endif
	/* The skipped functions will not remove the KASAN red zones of their variables. */
	ferro_kasan_unpoison((void *)sp, frame->sp - sp);
	return frame;
}

EXPORT_SYMBOL_GPL(register_jprobe);
EXPORT_SYMBOL_GPL(unregister_jprobe);
EXPORT_SYMBOL_GPL(register_jprobes);
EXPORT_SYMBOL_GPL(unregister_jprobes);
EXPORT_SYMBOL_GPL(jprobe_return);
