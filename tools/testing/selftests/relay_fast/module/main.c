// SPDX-License-Identifier: GPL-2.0
/*
 * relay_fast_selftest: commands through debugfs relay_fast_selftest/ctl, state through
 * relay_fast_selftest/info, the channel's files in the same directory.
 */
#include <linux/cpu.h>
#include <linux/debugfs.h>
#include <linux/err.h>
#include <linux/io.h>
#include <linux/module.h>
#include <linux/seq_file.h>

#include "selftest.h"

struct fst_state fst = {
	.lock = __MUTEX_INITIALIZER(fst.lock),
};

static void forget(void)
{
	unsigned int ctx;

	for (ctx = 0; ctx < FST_NR_CTX; ctx++)
		memset(fst.lane[ctx], 0, nr_cpu_ids * sizeof(*fst.lane[ctx]));
	fst.ups = 0;
}

/*
 * open [reserved=] [name=] [noname=1] [dir=root|gone] [subbuf=] [n=] [flags=] [format=WORD] [at_hotplug=1] [other=1]
 *      [killed=1] [kill=BUFFER] [waitdown=BUFFER] [meanwhile=BUFFER]
 */
static int open(const struct ctl_args *a)
{
	u64 subbuf = 4096, n = 4, flags = 0, noname = 0, at_hotplug = 0, other = 0;
	const char *dir = ctl_str(a, "dir", "own"), *reserved = ctl_str(a, "reserved", NULL);
	struct dentry *parent = fst.dir, *gone = NULL;
	struct relay_fast *chan;
	int ret;

	ret = ctl_num(a, "subbuf", &subbuf) ?: ctl_num(a, "n", &n) ?: ctl_num(a, "flags", &flags) ?:
	      ctl_num(a, "noname", &noname) ?: ctl_num(a, "at_hotplug", &at_hotplug) ?:
	      ctl_num(a, "other", &other);
	if (ret)
		return ret;
	if (other ? !!fst.other : !!fst.chan)
		return -EBUSY;
	if (!strcmp(dir, "root"))
		parent = NULL;
	else if (!strcmp(dir, "gone"))
		parent = gone = debugfs_create_dir("gone", fst.dir);
	fst_slow_begin(a);
	chan = reserved ? relay_fast_open_reserved(ctl_str(a, "name", "cpu"), parent, subbuf, n, flags,
						   ctl_str(a, "format", NULL), reserved) :
			  relay_fast_open(noname ? NULL : ctl_str(a, "name", "cpu"), parent, subbuf, n, flags,
					  ctl_str(a, "format", NULL));
	fst_slow_end();
	debugfs_remove(gone);
	fst.result = IS_ERR(chan) ? -PTR_ERR(chan) : 0;
	if (IS_ERR(chan))
		return PTR_ERR(chan);
	if (other) {
		fst.other = chan;
		return 0;
	}
	forget();
	fst.subbuf = subbuf;
	fst.chan = chan;
	WRITE_ONCE(fst.at_hotplug, at_hotplug);
	return 0;
}

static void close(void)
{
	if (!fst.chan)
		return;
	fst_rounds_wait();
	fst_release();
	fst_storm_stop();
	/* not in the middle of a CPU's coming up */
	cpus_read_lock();
	WRITE_ONCE(fst.at_hotplug, false);
	cpus_read_unlock();
	relay_fast_close(fst.chan);
	fst.chan = NULL;
}

/* As if the client had left it open. */
static void leave_open(void)
{
	fst.chan = NULL;
}

static void close_other(void)
{
	relay_fast_close(fst.other);
	fst.other = NULL;
}

static void null_channel(void)
{
	relay_fast_close(NULL);
	relay_fast_close(ERR_PTR(-ENOMEM));
}

/* reset: the chipset resets the machine, behind the kernel's back */
static int reset(const struct ctl_args *a)
{
#ifdef CONFIG_UML
	return -ENODEV;
#else
	outb(0x06, 0xcf9);
	return -EIO;
#endif
}

static int rounds_end(const struct ctl_args *a)
{
	return fst_rounds_wait();
}

/* Commands that need an open channel. */
static const struct ctl_command channel_commands[] = {
	{ "close", .act = close },
	{ "forget", .act = leave_open },
	{ "write", fst_write },
	{ "hold", fst_hold },
	{ "cut", fst_cut },
	{ "release", .act = fst_release },
	{ "rounds", fst_rounds },
	{ "roundsend", rounds_end },
	{ "nest", fst_nest },
	{ "edges", fst_edges },
	{ "exits", fst_exits },
	{ "storm", fst_storm },
	{}
};

static int channel_command(const struct ctl_args *a)
{
	if (!fst.chan)
		return -ENODEV;
	return ctl_run(a, channel_commands);
}

static int command(const struct ctl_args *a)
{
	static const struct ctl_command commands[] = {
		{ "open", open },
		{ "closeother", .act = close_other },
		{ "reset", reset },
		{ "null", .act = null_channel },
		{ .run = channel_command },
	};

	/* the readers need the lock while this one waits */
	if (ctl_is(a, "stormwait"))
		return fst_storm_wait();

	guard(mutex)(&fst.lock);
	return ctl_run(a, commands);
}

static void show_lane(struct seq_file *m, unsigned int cpu, unsigned int ctx)
{
	const struct fst_lane *lane = &fst.lane[ctx][cpu];

	seq_printf(m, "cpu%u.%s.tried %u\n", cpu, fst_ctx_names[ctx], lane->seq);
	seq_printf(m, "cpu%u.%s.refused %u\n", cpu, fst_ctx_names[ctx], lane->refused);
	seq_printf(m, "cpu%u.%s.discarded %u\n", cpu, fst_ctx_names[ctx], lane->discarded);
	seq_printf(m, "cpu%u.%s.inside %u\n", cpu, fst_ctx_names[ctx], lane->inside);
	seq_printf(m, "cpu%u.%s.deepest %u\n", cpu, fst_ctx_names[ctx], lane->deepest);
}

static s64 refused(void)
{
	unsigned int cpu, ctx;
	s64 sum = 0;

	for_each_possible_cpu(cpu)
		for (ctx = 0; ctx < FST_NR_CTX; ctx++)
			sum += fst.lane[ctx][cpu].refused;
	return sum;
}

static int info_show(struct seq_file *m, void *unused)
{
	unsigned int cpu, ctx;

	mutex_lock(&fst.lock);
	/* Holds off CPU hotplug and its writes between the counts. */
	cpus_read_lock();
	seq_printf(m, "result %llu\n", fst.result);
	seq_printf(m, "open %d\n", !!fst.chan);
	seq_printf(m, "ups %u\n", fst.ups);
	seq_printf(m, "went_down %d\n", fst.went_down);
	seq_printf(m, "meanwhile %d\n", fst.meanwhile);
	if (fst.chan)
		seq_printf(m, "lost %llu\n", relay_fast_lost(fst.chan));
	for_each_possible_cpu(cpu)
		for (ctx = 0; ctx < FST_NR_CTX; ctx++)
			show_lane(m, cpu, ctx);
	seq_printf(m, "uncounted %lld\n", fst.chan ? (s64)relay_fast_lost(fst.chan) - refused() : 0);
	cpus_read_unlock();
	mutex_unlock(&fst.lock);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(info);
DEFINE_CTL(command, info);

static int __init fst_init(void)
{
	int ret = fst_write_init();

	if (ret)
		return ret;
	ret = fst_storm_init();
	if (ret)
		goto out_write;
	ret = fst_slow_init();
	if (ret)
		goto out_storm;
	fst.dir = ctl_init();
	return 0;

out_storm:
	fst_storm_exit();
out_write:
	fst_write_exit();
	return ret;
}
module_init(fst_init);

/* Files and mappings of the channel may still be in use here. */
static void __exit fst_exit(void)
{
	/* No task gives commands now. */
	close();
	relay_fast_close(fst.other);
	debugfs_remove(fst.dir);
	fst_slow_exit();
	fst_storm_exit();
	fst_write_exit();
}
module_exit(fst_exit);

MODULE_DESCRIPTION("client of fast relay channels for the selftests");
MODULE_LICENSE("GPL");
