/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Declarations that the parts of the module share. An operation is a function that does it many
 * times.
 */
#ifndef _RELAY_BENCH_H
#define _RELAY_BENCH_H

#include <linux/debugfs.h>
#include <linux/relay.h>
#include <linux/ferrotrace_relay.h>

#define SUBBUF_SIZE	(64 * 1024)
#define N_SUBBUFS	8
#define WRITES		2000

/* The files of a channel, in debugfs. */
static inline struct dentry *bench_create_file(const char *name, struct dentry *parent, umode_t mode,
					       struct rchan_buf *buf, int *is_global)
{
	return debugfs_create_file(name, mode, parent, buf, &relay_file_operations);
}

static inline int bench_remove_file(struct dentry *dentry)
{
	debugfs_remove(dentry);
	return 0;
}

struct bench_channels {
	struct rchan *relay;
	struct relay_fast *fast;
	struct relay_fast *flight;	/* in memory that survives a reboot, or NULL */
};

struct bench_op {
	const char *name;
	void (*run)(const struct bench_channels *chans, size_t len);
	size_t len;
	u64 best;
};

extern bool bench_instructions;

/* Prints a figure, which is given in thousandths. */
void bench_print(const char *name, size_t len, u64 thousandths);

/* Loops of operations, and the empty loop, which is subtracted. */
void bench_run_empty(const struct bench_channels *chans, size_t len);
extern struct bench_op bench_relay_ops[];
extern struct bench_op bench_fast_ops[];
extern struct bench_op bench_flight_ops[];
extern struct bench_op bench_no_ops[];

/* How writing on all CPUs at once compares with writing on one. */
int bench_cpus(const struct bench_channels *chans, unsigned int rounds);

#endif /* _RELAY_BENCH_H */
