// SPDX-License-Identifier: GPL-2.0
/*
 * relay_selftest: commands in through debugfs relay_selftest/ctl, state out
 * through relay_selftest/info, relay files beside them.
 */
#include <linux/debugfs.h>
#include <linux/kstrtox.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "relay_selftest.h"

struct rst_state rst = {
	.lock = __MUTEX_INITIALIZER(rst.lock),
	.slot_lock = __MUTEX_INITIALIZER(rst.slot_lock),
	.write_lock = __RAW_SPIN_LOCK_UNLOCKED(rst.write_lock),
	.fail = -1,
};

const char *rst_str(const struct rst_args *a, const char *key, const char *def)
{
	size_t len = strlen(key);
	unsigned int i;

	for (i = 0; i < a->n; i++)
		if (!strncmp(a->word[i], key, len) && a->word[i][len] == '=')
			return a->word[i] + len + 1;
	return def;
}

/* Leaves *val alone when there is no such key; takes negative numbers too. */
int rst_num(const struct rst_args *a, const char *key, u64 *val)
{
	const char *s = rst_str(a, key, NULL);

	if (!s)
		return 0;
	if (*s == '-')
		return kstrtos64(s, 0, (s64 *)val);
	return kstrtou64(s, 0, val);
}

static int rst_consumed(const struct rst_args *a)
{
	u64 cpu = 0, n = 0;
	int ret = rst_num(a, "cpu", &cpu) ?: rst_num(a, "n", &n);

	if (!ret)
		relay_subbufs_consumed(rst.chan, cpu, n);
	return ret;
}

static int rst_stats(const struct rst_args *a)
{
	u64 flags = 0;
	int ret = rst_num(a, "flags", &flags);

	if (!ret)
		rst.result = relay_stats(rst.chan, flags);
	return ret;
}

static int rst_set_stats(const struct rst_args *a)
{
	u64 cpu = 0, full = 0, big = 0;
	struct rchan_buf *buf;
	int ret;

	ret = rst_num(a, "cpu", &cpu) ?: rst_num(a, "full", &full) ?:
	      rst_num(a, "big", &big);
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
static int rst_poke(const struct rst_args *a)
{
	u64 cpu = 0, at = 0, byte = 0;
	int ret = rst_num(a, "cpu", &cpu) ?: rst_num(a, "at", &at) ?:
		  rst_num(a, "byte", &byte);

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
static int grab(const struct rst_args *a)
{
	u64 cpu = 0, page = 0, count = 1, times = 1, i;
	struct rchan_buf *buf;
	int ret = rst_num(a, "cpu", &cpu) ?: rst_num(a, "page", &page) ?:
		  rst_num(a, "count", &count) ?: rst_num(a, "times", &times);

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
static int pin(const struct rst_args *a)
{
	u64 addr = 0;
	int ret = rst_num(a, "addr", &addr);

	if (ret)
		return ret;
	unpin();
	ret = pin_user_pages_fast(addr, 1, FOLL_LONGTERM, &pinned);
	return ret == 1 ? 0 : ret ?: -EFAULT;
}

static int null_channel(void)
{
	relay_close(NULL);
	relay_flush(NULL);
	relay_reset(NULL);
	relay_subbufs_consumed(NULL, 0, 1);
	rst.result = relay_stats(NULL, RELAY_STATS_BUF_FULL);
	return 0;
}

/* Commands that need an open channel. */
static int channel_command(const struct rst_args *a)
{
	if (!rst.chan)
		return -ENODEV;
	/* whoever is held is so for this one */
	WRITE_ONCE(rst.command, ktime_get());
	if (!strcmp(a->verb, "close"))
		rst_close();
	else if (!strcmp(a->verb, "rmdir"))
		rst_rmdir();
	else if (!strcmp(a->verb, "latesetup"))
		return rst_late_setup(a);
	else if (!strcmp(a->verb, "flush"))
		relay_flush(rst.chan);
	else if (!strcmp(a->verb, "reset"))
		relay_reset(rst.chan);
	else if (!strcmp(a->verb, "repair"))
		rst_repair();
	else if (!strcmp(a->verb, "mode"))
		return rst_set_mode(a);
	else if (!strcmp(a->verb, "consumed"))
		return rst_consumed(a);
	else if (!strcmp(a->verb, "stats"))
		return rst_stats(a);
	else if (!strcmp(a->verb, "setstats"))
		return rst_set_stats(a);
	else if (!strcmp(a->verb, "poke"))
		return rst_poke(a);
	else if (!strcmp(a->verb, "grab"))
		return grab(a);
	else if (!strcmp(a->verb, "write"))
		return rst_write(a);
	else if (!strcmp(a->verb, "wrap"))
		return rst_wrap(a);
	else if (!strcmp(a->verb, "switch"))
		return rst_switch(a);
	else if (!strcmp(a->verb, "hold"))
		return rst_hold(a);
	else if (!strcmp(a->verb, "release"))
		rst_release();
	else if (!strcmp(a->verb, "nest"))
		return rst_nest(a);
	else if (!strcmp(a->verb, "flushrace"))
		return rst_flush_race(a);
	else if (!strcmp(a->verb, "storm"))
		return rst_storm(a);
	else
		return -EOPNOTSUPP;
	return 0;
}

static int command(const struct rst_args *a)
{
	int ret = 0;

	/* the readers need the lock while this one waits */
	if (!strcmp(a->verb, "stormwait"))
		return rst_storm_wait();

	mutex_lock(&rst.lock);
	if (!strcmp(a->verb, "open"))
		ret = rst_open(a);
	else if (!strcmp(a->verb, "sweep"))
		rst_sweep();
	else if (!strcmp(a->verb, "slowcpu"))
		ret = rst_slow_cpu(a);
	else if (!strcmp(a->verb, "ungrab"))
		ungrab();
	else if (!strcmp(a->verb, "pin"))
		ret = pin(a);
	else if (!strcmp(a->verb, "unpin"))
		unpin();
	else if (!strcmp(a->verb, "null"))
		ret = null_channel();
	else
		ret = channel_command(a);
	mutex_unlock(&rst.lock);
	return ret;
}

static ssize_t ctl_write(struct file *file, const char __user *ubuf,
			 size_t count, loff_t *ppos)
{
	struct rst_args a = {};
	char *line, *rest, *word;
	int ret;

	if (count > 1024)
		return -E2BIG;
	line = memdup_user_nul(ubuf, count);
	if (IS_ERR(line))
		return PTR_ERR(line);

	rest = line;
	while ((word = strsep(&rest, "\n ")) != NULL) {
		if (!*word)
			continue;
		if (!a.verb)
			a.verb = word;
		else if (a.n < ARRAY_SIZE(a.word))
			a.word[a.n++] = word;
	}
	ret = a.verb ? command(&a) : -EINVAL;
	kfree(line);
	return ret ?: count;
}

static const struct file_operations ctl_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.write = ctl_write,
};

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
	/* what is produced before is not padded afterwards */
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

static int __init rst_init(void)
{
	int ret = rst_write_init();

	if (ret)
		return ret;
	ret = rst_hotplug_init();
	if (ret)
		goto out_write;
	rst.dir = debugfs_create_dir("relay_selftest", NULL);
	if (IS_ERR(rst.dir)) {
		ret = PTR_ERR(rst.dir);
		goto out_hotplug;
	}
	debugfs_create_file("ctl", 0200, rst.dir, NULL, &ctl_fops);
	debugfs_create_file("info", 0400, rst.dir, NULL, &info_fops);
	return 0;

out_hotplug:
	rst_hotplug_exit();
out_write:
	rst_write_exit();
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
