// SPDX-License-Identifier: GPL-2.0
/*
 * The channel under test and its callbacks.
 */
#include <linux/debugfs.h>
#include <linux/err.h>
#include <linux/fs.h>
#include <linux/kernel.h>
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "relay_selftest.h"

static const char * const mode_names[RST_NR_MODES] = {
	[RST_DEFAULT] = "default",
	[RST_OVERWRITE] = "overwrite",
	[RST_NOOVERWRITE] = "nooverwrite",
	[RST_HEADER] = "header",
	[RST_STOP] = "stop",
};

static int subbuf_index(struct rchan_buf *buf, void *subbuf)
{
	return subbuf ? (subbuf - buf->start) / buf->chan->subbuf_size : -1;
}

/* Longest time to hold a task: interrupts are off. */
#define HOLD_MOST_MS	15000

/*
 * Holds a writer here, if requested, with the switch half done: until released, or for some time
 * after another command.
 */
void rst_hold_here(enum rst_hold where)
{
	unsigned int ms = READ_ONCE(rst.hold_ms);
	ktime_t begin = ktime_get_mono_fast_ns(), now, command;

	if (atomic_cmpxchg(&rst.hold, where, RST_HOLDING) != where)
		return;
	do {
		cpu_relax();
		now = ktime_get_mono_fast_ns();
		command = READ_ONCE(rst.command);
		if (ms && ktime_after(command, begin) && ktime_after(now, ktime_add_ms(command, ms)))
			break;
	} while (atomic_read(&rst.hold) == RST_HOLDING && ktime_before(now, ktime_add_ms(begin, HOLD_MOST_MS)));
}

static int subbuf_start(struct rchan_buf *buf, void *subbuf, void *prev)
{
	enum rst_mode mode = READ_ONCE(rst.mode);
	int go_on = 1;

	atomic_inc(&rst.starts);
	if (!prev)
		atomic_inc(&rst.first_starts);
	atomic_set(&rst.last_index, subbuf_index(buf, subbuf));
	atomic_set(&rst.last_prev, subbuf_index(buf, prev));

	if (mode == RST_HEADER && prev)
		*(u32 *)prev = relay_prev_padding(buf, prev);
	if (mode == RST_HEADER || mode == RST_NOOVERWRITE)
		go_on = !relay_buf_full(buf);
	else if (mode == RST_STOP)
		go_on = !prev;

	rst_hold_here(RST_HOLD_ANY);
	if (relay_buf_full(buf))
		rst_hold_here(RST_HOLD_FULL);
	rst_nest_at_start();
	if (!go_on) {
		atomic_inc(&rst.cpu[buf->cpu].refused);
	} else if (rst.reserve) {
		subbuf_start_reserve(buf, rst.reserve);
		rst_nest_at_start();
	}
	return go_on;
}

/*
 * Calls the client on mapping and unmapping, by file operations of our own, in place of the former
 * callbacks buf_mapped() and buf_unmapped().
 */
static void unmapped(struct vm_area_struct *vma)
{
	atomic_inc(&rst.unmapped);
}

static struct vm_operations_struct mapped_ops;

static int mmap_prepare(struct vm_area_desc *desc)
{
	int err = relay_file_operations.mmap_prepare(desc);

	if (err)
		return err;
	mapped_ops = *desc->vm_ops;
	mapped_ops.close = unmapped;
	desc->vm_ops = &mapped_ops;
	atomic_inc(&rst.mapped);
	return 0;
}

static struct file_operations notifying;

static const struct file_operations *operations(void)
{
	if (!rst.notify)
		return &relay_file_operations;
	notifying = relay_file_operations;
	notifying.mmap_prepare = mmap_prepare;
	return &notifying;
}

static struct dentry *create_buf_file(const char *filename,
				      struct dentry *parent, umode_t mode,
				      struct rchan_buf *buf, int *is_global)
{
	struct dentry *dentry = NULL;
	struct rst_slot *slot;
	char anon[16];
	int call;

	mutex_lock(&rst.slot_lock);
	call = rst.creates++;
	if (call == rst.kill)
		send_sig(SIGKILL, current, 1);
	if (call == rst.wait_down)
		rst.went_down = rst_wait_down(rst.down_before);
	rst.create_mode = mode;
	rst.private_ok = buf->chan->private_data == &rst;
	/* the file that is made below can be opened at once */
	if (!kref_read(&buf->kref))
		rst.counted = false;
	if (!parent)
		rst.null_parents++;
	if (!filename && rst.early && call != rst.fail) {
		/* anything but NULL or an error */
		dentry = rst.dir;
		if (rst.global)
			*is_global = 1;
		goto out;
	}
	if (!filename) {
		/* a buffer without a name: it gets a file of our own */
		rst.null_names++;
		snprintf(anon, sizeof(anon), "anon%d", call);
		filename = anon;
		parent = rst.dir;
	}
	if (call == rst.fail) {
		dentry = rst.fail_err ? ERR_PTR(-ENOSPC) : NULL;
		goto out;
	}
	if (call >= RST_MAX_SLOTS)
		goto out;
	if (rst.global)
		*is_global = 1;
	if (rst.perm)
		mode = rst.perm;

	slot = &rst.slot[call];
	if (rst.plain)
		dentry = debugfs_create_file(filename, mode, parent, buf, operations());
	else
		dentry = debugfs_create_file_unsafe(filename, mode, parent, buf, operations());
	if (!IS_ERR(dentry)) {
		slot->dentry = dentry;
		slot->live = true;
	}
out:
	mutex_unlock(&rst.slot_lock);
	return dentry;
}

static int remove_buf_file(struct dentry *dentry)
{
	struct dentry *victim = NULL;
	unsigned int i;

	mutex_lock(&rst.slot_lock);
	rst.removes++;
	if (!dentry)
		rst.null_removes++;
	for (i = 0; i < RST_MAX_SLOTS; i++) {
		struct rst_slot *slot = &rst.slot[i];

		if (slot->live && (!dentry || slot->dentry == dentry)) {
			slot->live = false;
			victim = slot->dentry;
			break;
		}
	}
	if (!victim)
		rst.bad_removes++;
	mutex_unlock(&rst.slot_lock);

	debugfs_remove(victim);
	return 0;
}

static const struct rchan_callbacks cb_default = {
	.create_buf_file = create_buf_file,
	.remove_buf_file = remove_buf_file,
};

static const struct rchan_callbacks cb_full = {
	.subbuf_start = subbuf_start,
	.create_buf_file = create_buf_file,
	.remove_buf_file = remove_buf_file,
};

static const struct rchan_callbacks cb_no_create = {
	.remove_buf_file = remove_buf_file,
};

static const struct rchan_callbacks cb_no_remove = {
	.create_buf_file = create_buf_file,
};

static const struct rchan_callbacks *callbacks(const char *name)
{
	if (!strcmp(name, "null"))
		return NULL;
	if (!strcmp(name, "nocreate"))
		return &cb_no_create;
	if (!strcmp(name, "noremove"))
		return &cb_no_remove;
	return rst.mode == RST_DEFAULT ? &cb_default : &cb_full;
}

int rst_set_mode(const struct ctl_args *a)
{
	int mode = match_string(mode_names, RST_NR_MODES,
				ctl_str(a, "mode", "default"));

	if (mode < 0)
		return mode;
	WRITE_ONCE(rst.mode, mode);
	return 0;
}

static void forget(void)
{
	unsigned int cpu;

	memset(rst.slot, 0, sizeof(rst.slot));
	rst.creates = 0;
	rst.removes = 0;
	rst.null_names = 0;
	rst.null_parents = 0;
	rst.null_removes = 0;
	rst.bad_removes = 0;
	rst.create_mode = 0;
	rst.private_ok = false;
	rst.counted = true;
	atomic_set(&rst.starts, 0);
	atomic_set(&rst.first_starts, 0);
	for_each_possible_cpu(cpu) {
		struct rst_cpu *c = &rst.cpu[cpu];

		atomic_set(&c->seq[RST_TASK], 0);
		atomic_set(&c->seq[RST_IRQ], 0);
		atomic_set(&c->refused, 0);
		c->saved = NULL;
	}
}

/*
 * open [name=] [noname=1] [noparent=1] subbuf= n= [mode=] [reserve=]
 *      [file=plain|unsafe|notify] [perm=] [global=1] [fail=k] [failerr=1]
 *      [cb=null|nocreate|noremove] [longname=bytes] [early=1] [subdir=1]
 *      [killed=1] [kill=k] [waitdown=k]
 */
int rst_open(const struct ctl_args *a)
{
	u64 subbuf = 4096, n = 4, global = 0, fail = U64_MAX, failerr = 0;
	u64 perm = 0, noname = 0, noparent = 0, longname = 0, reserve = 0;
	u64 early = 0, subdir = 0, kill = U64_MAX, killed = 0, waitdown = U64_MAX;
	const char *name = ctl_str(a, "name", "cpu");
	char *long_name = NULL;
	unsigned int cpu;
	int ret;

	WRITE_ONCE(rst.opening, true);
	if (rst.chan)
		return -EBUSY;
	ret = ctl_num(a, "subbuf", &subbuf) ?: ctl_num(a, "n", &n) ?:
	      ctl_num(a, "global", &global) ?: ctl_num(a, "fail", &fail) ?:
	      ctl_num(a, "failerr", &failerr) ?: ctl_num(a, "perm", &perm) ?:
	      ctl_num(a, "noname", &noname) ?:
	      ctl_num(a, "noparent", &noparent) ?:
	      ctl_num(a, "longname", &longname) ?:
	      ctl_num(a, "reserve", &reserve) ?: ctl_num(a, "early", &early) ?:
	      ctl_num(a, "subdir", &subdir) ?: ctl_num(a, "kill", &kill) ?:
	      ctl_num(a, "killed", &killed) ?:
	      ctl_num(a, "waitdown", &waitdown) ?: rst_set_mode(a);
	if (ret)
		return ret;

	rst_sweep();
	forget();
	rst.plain = !strcmp(ctl_str(a, "file", "unsafe"), "plain");
	rst.notify = !strcmp(ctl_str(a, "file", "unsafe"), "notify");
	atomic_set(&rst.mapped, 0);
	atomic_set(&rst.unmapped, 0);
	rst.global = global;
	rst.early = early;
	rst.fail = (int)fail;
	rst.fail_err = failerr;
	rst.kill = (int)kill;
	rst.wait_down = (int)waitdown;
	rst.went_down = false;
	rst.down_before = rst_down();
	rst.perm = perm;
	rst.reserve = rst.mode == RST_HEADER && !reserve ? sizeof(u32) : reserve;

	if (longname) {
		if (longname > 4096)
			return -EINVAL;
		long_name = kmalloc(longname + 1, GFP_KERNEL);
		if (!long_name)
			return -ENOMEM;
		memset(long_name, 'l', longname);
		long_name[longname] = '\0';
		name = long_name;
	}

	if (killed)
		send_sig(SIGKILL, current, 1);
	if (subdir)
		rst.subdir = debugfs_create_dir("sub", rst.dir);
	rst.chan = relay_open(noname ? NULL : name,
			      noparent ? NULL : rst.subdir ?: rst.dir,
			      subbuf, n, callbacks(ctl_str(a, "cb", "")), &rst);
	kfree(long_name);
	if (!rst.chan) {
		rst_rmdir();
		return -ENOMEM;
	}
	for_each_possible_cpu(cpu)
		rst.cpu[cpu].saved = rst_buf(cpu);
	return 0;
}

/* latesetup [name=] [noname=1] [fail=k] [failerr=1]: the file callbacks count from here */
int rst_late_setup(const struct ctl_args *a)
{
#if IS_ENABLED(CONFIG_RELAY_RUST)
	u64 noname = 0, fail = U64_MAX, failerr = 0;
	int ret = ctl_num(a, "noname", &noname) ?: ctl_num(a, "fail", &fail) ?:
		  ctl_num(a, "failerr", &failerr);

	if (ret)
		return ret;
	rst.fail = fail == U64_MAX ? -1 : (int)(rst.creates + fail);
	rst.fail_err = failerr;
	return relay_late_setup_files(rst.chan, noname ? NULL : ctl_str(a, "name", "cpu"),
				      rst.dir);
#else
	return -EOPNOTSUPP;
#endif
}

void rst_close(void)
{
	rst_release();
	rst_nest_stop();
	rst_storm_stop();
	relay_close(rst.chan);
	rst.chan = NULL;
	rst_rmdir();
}

/* The directory of the channel's files, and them with it. */
void rst_rmdir(void)
{
	debugfs_remove(rst.subdir);
	rst.subdir = NULL;
}

unsigned int rst_live(void)
{
	unsigned int i, live = 0;

	for (i = 0; i < RST_MAX_SLOTS; i++)
		live += rst.slot[i].live;
	return live;
}

/* Remove the files that relay made us create and never asked us to remove. */
void rst_sweep(void)
{
	unsigned int i;

	if (rst.chan)
		return;
	for (i = 0; i < RST_MAX_SLOTS; i++) {
		if (!rst.slot[i].live)
			continue;
		rst.slot[i].live = false;
		debugfs_remove(rst.slot[i].dentry);
	}
}

/* Put back a per-CPU pointer that the engine lost. */
void rst_repair(void)
{
	unsigned int cpu;

	for_each_possible_cpu(cpu)
		if (rst.cpu[cpu].saved && !rst_buf(cpu))
			*per_cpu_ptr(rst.chan->buf, cpu) = rst.cpu[cpu].saved;
}
