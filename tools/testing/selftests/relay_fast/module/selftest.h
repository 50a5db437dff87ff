/* SPDX-License-Identifier: GPL-2.0 */
/*
 * relay_fast_selftest.ko: a client of fast channels that is driven from user space.
 *
 * One channel at a time, and a second one for tests that need two. Commands arrive in process
 * context through the debugfs file "ctl" and are serialised by fst.lock. Writers take no lock: a
 * lane belongs to one context of one CPU.
 */
#ifndef _RELAY_FAST_SELFTEST_H
#define _RELAY_FAST_SELFTEST_H

#include <linux/atomic.h>
#include <linux/ferrotrace_relay.h>
#include <linux/mutex.h>
#include <linux/string.h>
#include <linux/types.h>

#include "ctl.h"
#include "fast_record.h"

/* Counters of one context of one CPU. */
struct fst_lane {
	u32 seq;		/* records tried */
	u32 refused;
	u32 discarded;
	u32 inside;		/* began while a record of another context was being written */
	u32 deepest;		/* records in flight at that time, at most */
	u8 scratch[4096];
};

struct fst_state {
	struct mutex lock;	/* commands */
	struct dentry *dir;
	struct relay_fast *chan;
	struct relay_fast *other;
	u32 subbuf;
	u64 result;		/* of the last command */
	u32 ups;		/* CPUs that started and wrote a record then */
	bool at_hotplug;	/* they do */
	atomic_t downs;		/* CPUs that went down */
	bool went_down;		/* while a channel was opened, as was */
	bool meanwhile;		/* another one opened and closed */
	struct fst_lane *lane[FST_NR_CTX];	/* by CPU */
};

extern struct fst_state fst;

/* write.c */
extern const char * const fst_ctx_names[FST_NR_CTX];
void fst_put(enum fst_ctx ctx, unsigned int depth);
int fst_write(const struct ctl_args *a);
int fst_hold(const struct ctl_args *a);
int fst_cut(const struct ctl_args *a);
void fst_release(void);
int fst_rounds(const struct ctl_args *a);
int fst_rounds_wait(void);
int fst_write_init(void);
void fst_write_exit(void);

/* slow.c */
void fst_slow_begin(const struct ctl_args *a);
void fst_slow_end(void);
int fst_slow_init(void);
void fst_slow_exit(void);

/* nest.c */
int fst_nest(const struct ctl_args *a);
int fst_edges(const struct ctl_args *a);
int fst_exits(const struct ctl_args *a);

/* storm.c */
void fst_send_nmi(unsigned int cpu);
int fst_storm(const struct ctl_args *a);
int fst_storm_wait(void);
void fst_storm_stop(void);
int fst_storm_init(void);
void fst_storm_exit(void);

static inline struct relay_fast_ctl *fst_ctl(unsigned int cpu)
{
	return *per_cpu_ptr(fst.chan->ctl, cpu);
}

#endif
