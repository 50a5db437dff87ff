/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the parts of the module share.
 */
#ifndef _KPROBES_BENCH_H
#define _KPROBES_BENCH_H

/* The functions of places.S whose like there are many, and where in each is the instruction that is probed. */
#define MANY		2000
#define MANY_SIZE	32
#define MANY_AT		4

#ifndef __ASSEMBLER__

#include <linux/kprobes.h>
#include <linux/types.h>

/* Probes that are registered at once. */
#define BATCH		1000

/* Prints a figure, which is given in thousandths. */
void bench_print(const char *name, u64 thousandths);

/* main.c: handlers that do nothing. */
int bench_pre(struct kprobe *p, struct pt_regs *regs);
void bench_post(struct kprobe *p, struct pt_regs *regs, unsigned long flags);

/* hits.c */
int bench_hits(unsigned int rounds);
/* A hit of a probe with both handlers, printed as @name. */
int bench_inside(const char *name, unsigned int rounds);

/* registering.c; @names has BATCH names of the kernel's functions, or is NULL. */
int bench_registering(unsigned int rounds, char *names);

/* jumps.c: with jumps in the place of breakpoints. */
int bench_jumps(unsigned int rounds);

extern char bench_many[];

static inline long bench_call_many(unsigned int i)
{
	return ((long (*)(long))(void *)(bench_many + i * MANY_SIZE))(i);
}

#endif

#endif /* _KPROBES_BENCH_H */
