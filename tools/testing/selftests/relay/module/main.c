// SPDX-License-Identifier: GPL-2.0
/*
 * relay_selftest: commands through debugfs relay_selftest/ctl, state through relay_selftest/info,
 * relay files in the same directory.
 */
#include <linux/debugfs.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/seq_file.h>

#include "relay_selftest.h"

struct rst_state rst = {
	.lock = __MUTEX_INITIALIZER(rst.lock),
	.slot_lock = __MUTEX_INITIALIZER(rst.slot_lock),
	.write_lock = __RAW_SPIN_LOCK_UNLOCKED(rst.write_lock),
	.fail = -1,
};

static int rst_consumed(const struct ctl_args *a)
{
	u64 cpu = 0, n = 0;
	int ret = ctl_num(a, "cpu", &cpu) ?: ctl_num(a, "n", &n);

	if (!ret)
		relay_subbufs_consumed(rst.chan, cpu, n);
	return ret;
}

static int rst_stats(const struct ctl_args *a)
{
	u64 flags = 0;
	int ret = ctl_num(a, "flags", &flags);

	if (!ret)
		rst.result = relay_stats(rst.chan, flags);
	return ret;
}

static int rst_set_stats(const struct ctl_args *a)
{
	u64 cpu = 0, full = 0, big = 0;
	struct rchan_buf *buf;
	int ret;

	ret = ctl_num(a, "cpu", &cpu) ?: ctl_num(a, "full", &full) ?:
	      ctl_num(a, "big", &big);
	if (ret)
		return ret;
	buf = cpu < nr_cpu_ids ? rst_buf(cpu) : NULL;
	if (!buf)
		return -EINVAL;
	buf->stats.full_count = full;
	buf->stats.big_count = big;
	return 0;
}

/* poke cpu= at= byte=: change the buffer behind the engine's back */
static int rst_poke(const struct ctl_args *a)
{
	u64 cpu = 0, at = 0, byte = 0;
	int ret = ctl_num(a, "cpu", &cpu) ?: ctl_num(a, "at", &at) ?:
		  ctl_num(a, "byte", &byte);

	if (ret)
		return ret;
	if (cpu >= nr_cpu_ids || !rst_buf(cpu) || at >= rst.chan->alloc_size)
		return -EINVAL;
	((u8 *)rst_buf(cpu)->start)[at] = byte;
	return 0;
}

/* References to pages of a buffer, as a socket has them that the pages were sent to. */
static struct page *grabbed[1024];
static unsigned int n_grabbed;

static void ungrab(void)
{
	while (n_grabbed)
		put_page(grabbed[--n_grabbed]);
}

/* grab cpu= page= count= times=: so many references to each of these pages | ungrab */
static int grab(const struct ctl_args *a)
{
	u64 cpu = 0, page = 0, count = 1, times = 1, i;
	struct rchan_buf *buf;
	int ret = ctl_num(a, "cpu", &cpu) ?: ctl_num(a, "page", &page) ?:
		  ctl_num(a, "count", &count) ?: ctl_num(a, "times", &times);

	if (ret)
		return ret;
	ungrab();
	buf = cpu < nr_cpu_ids ? rst_buf(cpu) : NULL;
	if (!buf || count * times > ARRAY_SIZE(grabbed) || page + count > buf->page_count)
		return -EINVAL;
	for (i = 0; i < count * times; i++) {
		grabbed[n_grabbed] = buf->page_array[page + i % count];
		get_page(grabbed[n_grabbed++]);
	}
	return 0;
}

static struct page *pinned;

static void unpin(void)
{
	if (pinned)
		unpin_user_page(pinned);
	pinned = NULL;
}

/* pin addr=: pin a page of the caller's for long, as drivers do | unpin */
static int pin(const struct ctl_args *a)
{
	u64 addr = 0;
	int ret = ctl_num(a, "addr", &addr);

	if (ret)
		return ret;
	unpin();
	ret = pin_user_pages_fast(addr, 1, FOLL_LONGTERM, &pinned);
	return ret == 1 ? 0 : ret ?: -EFAULT;
}

static void null_channel(void)
{
	relay_close(NULL);
	relay_flush(NULL);
	relay_reset(NULL);
	relay_subbufs_consumed(NULL, 0, 1);
	rst.result = relay_stats(NULL, RELAY_STATS_BUF_FULL);
}

static void flush(void)
{
	relay_flush(rst.chan);
}

static void reset(void)
{
	relay_reset(rst.chan);
}

/* Commands that need an open channel. */
static const struct ctl_command channel_commands[] = {
	{ "latesetup", rst_late_setup },
	{ "mode", rst_set_mode },
	{ "consumed", rst_consumed },
	{ "stats", rst_stats },
	{ "setstats", rst_set_stats },
	{ "poke", rst_poke },
	{ "grab", grab },
	{ "close", .act = rst_close },
	{ "rmdir", .act = rst_rmdir },
	{ "flush", .act = flush },
	{ "reset", .act = reset },
	{ "resetstorm", rst_reset_storm },
	{ "repair", .act = rst_repair },
	{ "release", .act = rst_release },
	{ .run = rst_write_command },
};

static int channel_command(const struct ctl_args *a)
{
	if (!rst.chan)
		return -ENODEV;
	/* a held writer waits for this command */
	WRITE_ONCE(rst.command, ktime_get_mono_fast_ns());
	return ctl_run(a, channel_commands);
}

static int command(const struct ctl_args *a)
{
	static const struct ctl_command commands[] = {
		{ "sweep", .act = rst_sweep },
		{ "ungrab", .act = ungrab },
		{ "unpin", .act = unpin },
		{ "null", .act = null_channel },
		{ "open", rst_open },
		{ "slowcpu", rst_slow_cpu },
		{ "pin", pin },
		{ .run = channel_command },
	};

	/* the readers need the lock while this one waits */
	if (ctl_is(a, "stormwait"))
		return rst_storm_wait();

	guard(mutex)(&rst.lock);
	return ctl_run(a, commands);
}

static void show_buf(struct seq_file *m, unsigned int cpu)
{
	struct rst_cpu *c = &rst.cpu[cpu];
	struct rchan_buf *buf = rst_buf(cpu);
	size_t produced, i;

	/* 0: no pointer, 1: the one relay_open() left, 2: another */
	seq_printf(m, "cpu%u.buf %d\n", cpu,
		   !buf ? 0 : !c->saved || c->saved == buf ? 1 : 2);
	seq_printf(m, "cpu%u.task %u\n", cpu, atomic_read(&c->seq[RST_TASK]));
	seq_printf(m, "cpu%u.irq %u\n", cpu, atomic_read(&c->seq[RST_IRQ]));
	seq_printf(m, "cpu%u.refused %u\n", cpu, atomic_read(&c->refused));
	if (!buf)
		return;
	/* records produced before this are not padded afterwards */
	produced = smp_load_acquire(&buf->subbufs_produced);
	seq_printf(m, "cpu%u.produced %zu\n", cpu, produced);
	seq_printf(m, "cpu%u.consumed %zu\n", cpu, buf->subbufs_consumed);
	seq_printf(m, "cpu%u.offset %zu\n", cpu, buf->offset);
	seq_printf(m, "cpu%u.full %d\n", cpu, relay_buf_full(buf));
	seq_printf(m, "cpu%u.finalized %u\n", cpu, buf->finalized);
	seq_printf(m, "cpu%u.bufcpu %u\n", cpu, buf->cpu);
	for (i = 0; i < buf->chan->n_subbufs && i < 64; i++)
		seq_printf(m, "cpu%u.padding%zu %zu\n", cpu, i,
			   buf->padding[i]);
}

static int info_show(struct seq_file *m, void *unused)
{
	unsigned int cpu;

	mutex_lock(&rst.lock);
	seq_printf(m, "result %llu\n", rst.result);
	seq_printf(m, "open %d\n", !!rst.chan);
	seq_printf(m, "cpus %u\n", nr_cpu_ids);
	seq_printf(m, "coming_up %d\n", READ_ONCE(rst.coming_up));
	seq_printf(m, "creates %u\n", rst.creates);
	seq_printf(m, "removes %u\n", rst.removes);
	seq_printf(m, "live %u\n", rst_live());
	seq_printf(m, "null_names %u\n", rst.null_names);
	seq_printf(m, "null_parents %u\n", rst.null_parents);
	seq_printf(m, "null_removes %u\n", rst.null_removes);
	seq_printf(m, "bad_removes %u\n", rst.bad_removes);
	seq_printf(m, "create_mode %u\n", rst.create_mode);
	seq_printf(m, "private_ok %d\n", rst.private_ok);
	seq_printf(m, "counted %d\n", rst.counted);
	seq_printf(m, "mapped %d\n", atomic_read(&rst.mapped));
	seq_printf(m, "unmapped %d\n", atomic_read(&rst.unmapped));
	seq_printf(m, "went_down %d\n", rst.went_down);
	seq_printf(m, "nested %u\n", rst_nested());
	seq_printf(m, "nested_ok %u\n", rst_nested_ok());
	seq_printf(m, "starts %d\n", atomic_read(&rst.starts));
	seq_printf(m, "first_starts %d\n", atomic_read(&rst.first_starts));
	seq_printf(m, "last_index %d\n", atomic_read(&rst.last_index));
	seq_printf(m, "last_prev %d\n", atomic_read(&rst.last_prev));
	if (rst.chan) {
		seq_printf(m, "lost %llu\n", rst_lost());
		seq_printf(m, "is_global %d\n", rst.chan->is_global);
		seq_printf(m, "alloc_size %zu\n", rst.chan->alloc_size);
		seq_printf(m, "version %u\n", rst.chan->version);
		for_each_possible_cpu(cpu)
			show_buf(m, cpu);
	}
	mutex_unlock(&rst.lock);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(info);
DEFINE_CTL(command, info);

static int __init rst_init(void)
{
	int ret = rst_write_init() ?: rst_hotplug_init();

	if (ret)
		rst_write_exit();
	else
		rst.dir = ctl_init();
	return ret;
}
module_init(rst_init);

/* Files and mappings of the channel may still be in use here. */
static void __exit rst_exit(void)
{
	if (rst.chan)
		rst_close();
	rst_sweep();
	ungrab();
	unpin();
	debugfs_remove(rst.dir);
	rst_hotplug_exit();
	rst_write_exit();
}
module_exit(rst_exit);

MODULE_DESCRIPTION("relay client for the selftests");
MODULE_LICENSE("GPL");
