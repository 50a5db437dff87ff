/* SPDX-License-Identifier: GPL-2.0 */
/* Declarations that the parts of the module share. */
#ifndef _KPROBES_BENCH_H
#define _KPROBES_BENCH_H

/* The many functions of one kind in places.S, and the offset of the probed instruction in each. */
#define MANY		2000
#define MANY_SIZE	32
#define MANY_AT		4

#ifndef __ASSEMBLER__

#include <linux/kprobes.h>
#include <linux/types.h>

#include "measure.h"

/* Probes that are registered at once. */
#define BATCH		1000

/* Prints a figure, which is given in thousandths. */
void bench_print(const char *name, u64 thousandths);

/* main.c: handlers that do nothing. */
int bench_pre(struct kprobe *p, struct pt_regs *regs);
void bench_post(struct kprobe *p, struct pt_regs *regs, unsigned long flags);

/* Behind the first instruction of the functions of places.S, which is an xor of two bytes. */
#define BENCH_INSIDE	2

/*
 * Places of hits, and the names of their figures: with a pre handler, and with a post handler as
 * well.
 */
struct bench_place {
	const char *pre, *post;
	measured_t function;
	unsigned int offset;
};

/* hits.c */
int bench_hits(unsigned int rounds);
/*
 * Prints the cost of a hit in each place. With @ready, only in places where it accepts the
 * registered probe.
 */
int bench_hits_at(const struct bench_place *places, unsigned int count, bool (*ready)(struct kprobe *kp), unsigned int rounds);
/* A hit of a probe with both handlers, printed as @name. */
int bench_inside(const char *name, unsigned int rounds);

/* registering.c; @names has BATCH names of the kernel's functions, or is NULL. */
int bench_registering(unsigned int rounds, char *names);

/* shares.c: returns how many of these probes have jumps when no further jumps are placed. */
unsigned int bench_jumps_in_the_end(struct kprobe *kps, unsigned int count);

/* jumps.c: with jumps in the place of breakpoints. */
int bench_jumps(unsigned int rounds);
/* In how many places of the kernel, and of the functions that are @hot, there are some. */
int bench_shares(char *hot);

extern char bench_many[];

static inline long bench_call_many(unsigned int i)
{
	return ((long (*)(long))(void *)(bench_many + i * MANY_SIZE))(i);
}

#endif

#endif /* _KPROBES_BENCH_H */
