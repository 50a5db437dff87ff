/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Declarations that the parts of the module share. An operation is a function that passes a place
 * many times.
 */
#ifndef _GKHI_BENCH_H
#define _GKHI_BENCH_H

#include <linux/gkhi.h>
#include <linux/types.h>

#define LOOPS		10000
#define EXITS_MAX	8

/* Values that the operations have in registers, as arguments for their places. */
struct bench_args {
	unsigned long a, b, c, d, e;
};

/**
 * struct bench_op - An operation.
 * @name: Name in the results.
 * @run: Function that does it LOOPS times.
 * @hook: Hook that the operation executes, or NULL.
 * @exit: The exit on it, or NULL for none.
 * @exits: Number of times that the exit is registered and armed.
 * @flags: Flags of the records.
 * @probes: Registers this number of probes on the operation's tracepoint; NULL if it has none.
 * @count: Number of probes.
 * @best: The shortest time that was measured.
 * @records: The exits.
 */
struct bench_op {
	const char *name;
	void (*run)(const struct bench_args *args);
	struct gkhook *hook;
	gkh_fn_t exit;
	unsigned int exits;
	unsigned int flags;
	int (*probes)(long count);
	long count;
	u64 best;
	struct gkh_record records[EXITS_MAX];
};

/* Prints a figure, which is given in thousandths. */
void bench_print(const char *name, u64 thousandths);

/* The empty loop, to subtract its cost; the operations, up to one without a name. */
void bench_run_empty(const struct bench_args *args);
extern struct bench_op bench_ops[];

/* Measures registering, arming and their opposites. */
int bench_arming(unsigned int rounds);

/* Names for records. */
extern const char * const bench_names[100];

#endif /* _GKHI_BENCH_H */
