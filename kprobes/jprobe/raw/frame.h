/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _FERROTRACE_KPROBES_JPROBE_FRAME_H
#define _FERROTRACE_KPROBES_JPROBE_FRAME_H

/* Offsets in struct ferro_jprobe_frame, for call.S. */
#define FERRO_JPROBE_SP		0
#define FERRO_JPROBE_STACK	8

#ifndef __ASSEMBLER__

#include <linux/jprobes.h>

#ifdef CONFIG_KPROBES

#define FERRO_JPROBE_WORDS	(JPROBE_STACK_SIZE / sizeof(unsigned long))

struct pt_regs;

/* Call of a jprobe's handler. */
struct ferro_jprobe_frame {
	/* Stack pointer that jprobe_return() restores. */
	unsigned long sp;
	/* Arguments on the stack. */
	unsigned long stack[FERRO_JPROBE_WORDS];
	/* Call that this one has interrupted. */
	struct ferro_jprobe_frame *previous;
	/* State of the function graph tracer for this task. */
	int graph_stack;
	int graph_depth;
};

/* In frame.c: enclose a handler that may end by jprobe_return(). The CPU does not change. */
void ferro_jprobe_enter(struct ferro_jprobe_frame *frame);
void ferro_jprobe_leave(struct ferro_jprobe_frame *frame);
/* In frame.c: returns the frame for a jprobe_return() with stack pointer @sp, or NULL. */
struct ferro_jprobe_frame *ferro_jprobe_unwind(unsigned long sp);
/* In call.S: calls @handler with the arguments of @regs and @frame. */
void ferro_jprobe_call(struct pt_regs *regs, void *handler, struct ferro_jprobe_frame *frame);

#endif /* CONFIG_KPROBES */

#endif /* __ASSEMBLER__ */

#endif /* _FERROTRACE_KPROBES_JPROBE_FRAME_H */
