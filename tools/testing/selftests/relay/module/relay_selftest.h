/* SPDX-License-Identifier: GPL-2.0 */
/*
 * relay_selftest.ko: a relay client driven from user space.
 *
 * One channel at a time. Commands arrive in process context through the debugfs file "ctl" and are
 * serialised by rst.lock. The callbacks run in any context in which relay calls them and touch only
 * atomics, except the two file callbacks, which take rst.slot_lock (inside rst.lock or the hotplug
 * lock).
 */
#ifndef _RELAY_SELFTEST_H
#define _RELAY_SELFTEST_H

#include <linux/kconfig.h>
#include <linux/relay.h>
#include <linux/ktime.h>
#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/types.h>

#include <linux/ferrotrace_relay.h>

#include "ctl.h"
#include "record.h"

#define RST_MAX_SLOTS	64

enum rst_mode {
	RST_DEFAULT,		/* no subbuf_start callback */
	RST_OVERWRITE,
	RST_NOOVERWRITE,
	RST_HEADER,		/* no-overwrite, padding kept in a header */
	RST_STOP,		/* refuse every switch */
	RST_NR_MODES,
};

enum rst_fn {
	RST_WRITE,
	RST_WRITE_PREEMPT,	/* __relay_write() */
	RST_RESERVE,
	RST_TRY,		/* relay_try_write(); relay_write() on mainline */
	RST_NR_FNS,
};

/* Keeping a writer inside of subbuf_start() */
enum rst_hold {
	RST_NO_HOLD,
	RST_HOLD_ANY,		/* in the next call */
	RST_HOLD_FULL,		/* in the next call with the buffer full */
	RST_HOLD_WAKE,		/* before that, where the writer wakes pollers */
	RST_HOLDING,
};

/* A file that create_buf_file() made. */
struct rst_slot {
	struct dentry *dentry;
	bool live;
};

struct rst_cpu {
	atomic_t seq[RST_NR_CTX];	/* records tried */
	atomic_t refused;		/* switches that subbuf_start refused */
	struct rchan_buf *saved;	/* this CPU's pointer after relay_open() */
	u8 *scratch[RST_NR_CTX];
};

struct rst_state {
	struct mutex lock;		/* commands */
	struct dentry *dir;
	struct dentry *subdir;		/* for the files of a channel */
	struct rchan *chan;
	u64 result;			/* of the last command */

	/* how create_buf_file() is to behave */
	bool plain;
	bool notify;			/* its files have operations of our own, which count mappings */
	bool global;
	bool early;			/* no files without a name */
	bool fail_err;
	int fail;			/* number of the call to fail, or -1 */
	int kill;			/* of the call that kills its task, or -1 */
	int wait_down;			/* of the call that waits for a CPU to go down, or -1 */
	bool went_down;			/* a CPU was taken down during it */
	int down_before;		/* CPUs that were taken down before */
	umode_t perm;

	enum rst_mode mode;
	size_t reserve;
	raw_spinlock_t write_lock;	/* the writers of a global buffer */

	/* records of the callbacks */
	struct mutex slot_lock;		/* from here to private_ok */
	struct rst_slot slot[RST_MAX_SLOTS];
	unsigned int creates, removes;
	unsigned int null_names, null_parents, null_removes, bad_removes;
	unsigned int create_mode;
	bool private_ok;
	bool counted;		/* buffers had a reference count at that time */
	atomic_t mapped, unmapped;
	atomic_t starts, first_starts;
	atomic_t last_index, last_prev;
	atomic_t hold;			/* enum rst_hold */
	unsigned int hold_ms;		/* after a command was received; 0: until released */
	ktime_t command;		/* time of the last one */
	bool coming_up;			/* a slow CPU */
	bool opening;			/* a channel, since the CPU was set to be slow */

	struct rst_cpu cpu[NR_CPUS];
};

extern struct rst_state rst;

/* chan.c */
int rst_open(const struct ctl_args *a);
int rst_set_mode(const struct ctl_args *a);
int rst_late_setup(const struct ctl_args *a);
void rst_close(void);
void rst_rmdir(void);
void rst_sweep(void);
void rst_repair(void);
unsigned int rst_live(void);

void rst_hold_here(enum rst_hold where);

/* reset.c */
int rst_reset_storm(const struct ctl_args *a);

/* write.c */
int rst_write_command(const struct ctl_args *a);
u64 rst_lost(void);
void rst_nest_stop(void);
void rst_nest_at_start(void);
unsigned int rst_nested(void);
unsigned int rst_nested_ok(void);
void rst_release(void);
int rst_storm_wait(void);
void rst_storm_stop(void);
int rst_write_init(void);
void rst_write_exit(void);

/* hotplug.c */
int rst_slow_cpu(const struct ctl_args *a);
int rst_hotplug_init(void);
void rst_hotplug_exit(void);
int rst_down(void);
bool rst_wait_down(int before);

static inline struct rchan_buf *rst_buf(unsigned int cpu)
{
	return *per_cpu_ptr(rst.chan->buf, cpu);
}

#endif
