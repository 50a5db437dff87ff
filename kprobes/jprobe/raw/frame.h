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

/* A call of a jprobe's handler. */
struct ferro_jprobe_frame {
	/* Where jprobe_return() takes the stack pointer back to. */
	unsigned long sp;
	/* The arguments on the stack. */
	unsigned long stack[FERRO_JPROBE_WORDS];
	/* The call that this one interrupted. */
	struct ferro_jprobe_frame *previous;
	/* What the function graph tracer knows of the task's calls. */
	int graph_stack;
	int graph_depth;
};

/* frame.c: around a handler, which jprobe_return() then ends. The CPU is not left. */
void ferro_jprobe_enter(struct ferro_jprobe_frame *frame);
void ferro_jprobe_leave(struct ferro_jprobe_frame *frame);
/* frame.c: the frame to which a jprobe_return() goes back whose stack pointer is @sp, or NULL. */
struct ferro_jprobe_frame *ferro_jprobe_unwind(unsigned long sp);
/* call.S: call @handler with the arguments of @regs and @frame. */
void ferro_jprobe_call(struct pt_regs *regs, void *handler, struct ferro_jprobe_frame *frame);

#endif /* CONFIG_KPROBES */

#endif /* __ASSEMBLER__ */

#endif /* _FERROTRACE_KPROBES_JPROBE_FRAME_H */
