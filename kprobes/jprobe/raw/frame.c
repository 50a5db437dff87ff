// SPDX-License-Identifier: GPL-2.0
/*
 * The calls of jprobes' handlers that are going on, the innermost first, and what has to be put right when
 * jprobe_return() leaves the functions in between behind. Contexts: any in which the CPU is not left, NMI included.
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
/* call.S passes so many */
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
	/* It would have the next function return where one of these should have. */
	if (current->curr_ret_stack > frame->graph_stack) {
		current->curr_ret_stack = frame->graph_stack;
		current->curr_ret_depth = frame->graph_depth;
	}
#endif
	/* Nobody will lift what was put around the variables of these functions. */
	ferro_kasan_unpoison((void *)sp, frame->sp - sp);
	return frame;
}

EXPORT_SYMBOL_GPL(register_jprobe);
EXPORT_SYMBOL_GPL(unregister_jprobe);
EXPORT_SYMBOL_GPL(register_jprobes);
EXPORT_SYMBOL_GPL(unregister_jprobes);
EXPORT_SYMBOL_GPL(jprobe_return);
