// SPDX-License-Identifier: GPL-2.0
/*
 * Sample: the relay client of the relay document, complete.
 *
 * Opens a channel with a file per CPU in debugfs/relay_c_client. Each line that is written to the
 * file "log" there is written to the channel. The padding of each sub-buffer is kept at its head.
 * User space reports through cpuN.consumed how many sub-buffers it has read. Drain the channel with
 *	ferrotrace relay record --header 4 /sys/kernel/debug/relay_c_client/cpu -o OUT
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/debugfs.h>
#include <linux/module.h>
#include <linux/relay.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

static unsigned int subbuf_size = 65536;
module_param(subbuf_size, uint, 0444);
MODULE_PARM_DESC(subbuf_size, "Bytes in a sub-buffer");

static unsigned int n_subbufs = 8;
module_param(n_subbufs, uint, 0444);
MODULE_PARM_DESC(n_subbufs, "Sub-buffers of a CPU");

static bool overwrite;
module_param(overwrite, bool, 0444);
MODULE_PARM_DESC(overwrite, "Lose the oldest records rather than the newest");

#define LINE_MAX_LEN	256

static struct rchan *chan;
static struct dentry *dir;
static atomic64_t dropped;

static int subbuf_start(struct rchan_buf *buf, void *subbuf, void *prev_subbuf)
{
	if (prev_subbuf) {
		size_t n = buf->chan->n_subbufs;
		size_t prev = (prev_subbuf - buf->start) / buf->chan->subbuf_size;

		*(unsigned int *)prev_subbuf = buf->padding[prev % n];
	}

	if (!overwrite && relay_buf_full(buf)) {
		atomic64_inc(&dropped);
		return 0;
	}

	subbuf_start_reserve(buf, sizeof(unsigned int));
	return 1;
}

static ssize_t produced_read(struct file *file, char __user *to, size_t count, loff_t *pos)
{
	struct rchan_buf *buf = file->private_data;
	size_t produced = READ_ONCE(buf->subbufs_produced);

	return simple_read_from_buffer(to, count, pos, &produced, sizeof(produced));
}

static const struct file_operations produced_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.read = produced_read,
};

static ssize_t consumed_read(struct file *file, char __user *to, size_t count, loff_t *pos)
{
	struct rchan_buf *buf = file->private_data;
	size_t consumed = READ_ONCE(buf->subbufs_consumed);

	return simple_read_from_buffer(to, count, pos, &consumed, sizeof(consumed));
}

static ssize_t consumed_write(struct file *file, const char __user *from, size_t count,
			      loff_t *pos)
{
	struct rchan_buf *buf = file->private_data;
	size_t delta;

	if (count != sizeof(delta))
		return -EINVAL;
	if (copy_from_user(&delta, from, sizeof(delta)))
		return -EFAULT;
	if (delta > READ_ONCE(buf->subbufs_produced) - READ_ONCE(buf->subbufs_consumed))
		return -EINVAL;
	relay_subbufs_consumed(buf->chan, buf->cpu, delta);
	return count;
}

static const struct file_operations consumed_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.read = consumed_read,
	.write = consumed_write,
};

static struct dentry *create_buf_file(const char *filename, struct dentry *parent,
				      umode_t mode, struct rchan_buf *buf, int *is_global)
{
	struct dentry *dentry;
	char name[NAME_MAX + 1];

	dentry = debugfs_create_file(filename, mode, parent, buf, &relay_file_operations);
	if (IS_ERR(dentry))
		return dentry;

	snprintf(name, sizeof(name), "%s.produced", filename);
	debugfs_create_file(name, 0400, parent, buf, &produced_fops);
	snprintf(name, sizeof(name), "%s.consumed", filename);
	debugfs_create_file(name, 0600, parent, buf, &consumed_fops);
	return dentry;
}

static int remove_buf_file(struct dentry *dentry)
{
	char name[NAME_MAX + 1];

	/* These files use the buffer, so they are removed while it exists. */
	snprintf(name, sizeof(name), "%pd.produced", dentry);
	debugfs_lookup_and_remove(name, dir);
	snprintf(name, sizeof(name), "%pd.consumed", dentry);
	debugfs_lookup_and_remove(name, dir);
	debugfs_remove(dentry);
	return 0;
}

static const struct rchan_callbacks callbacks = {
	.subbuf_start = subbuf_start,
	.create_buf_file = create_buf_file,
	.remove_buf_file = remove_buf_file,
};

static ssize_t log_write(struct file *file, const char __user *from, size_t count, loff_t *pos)
{
	char line[LINE_MAX_LEN];
	size_t len = min(count, sizeof(line));

	if (copy_from_user(line, from, len))
		return -EFAULT;
	relay_write(chan, line, len);
	return len;
}

static const struct file_operations log_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.write = log_write,
};

static ssize_t size_read(char __user *to, size_t count, loff_t *pos, u64 value)
{
	char text[24];

	return simple_read_from_buffer(to, count, pos, text,
				       scnprintf(text, sizeof(text), "%llu\n", value));
}

static ssize_t dropped_read(struct file *file, char __user *to, size_t count, loff_t *pos)
{
	return size_read(to, count, pos, atomic64_read(&dropped));
}

static const struct file_operations dropped_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.read = dropped_read,
};

static ssize_t mode_read(struct file *file, char __user *to, size_t count, loff_t *pos)
{
	const char *mode = overwrite ? "overwrite\n" : "no-overwrite\n";

	return simple_read_from_buffer(to, count, pos, mode, strlen(mode));
}

static const struct file_operations mode_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.read = mode_read,
};

static int __init relay_c_client_init(void)
{
	/* A sub-buffer has to hold the reserved head and a line after it. */
	if (subbuf_size < sizeof(unsigned int) + LINE_MAX_LEN) {
		pr_err("a sub-buffer of %u bytes holds no line\n", subbuf_size);
		return -EINVAL;
	}

	dir = debugfs_create_dir("relay_c_client", NULL);
	if (IS_ERR(dir))
		return PTR_ERR(dir);

	chan = relay_open("cpu", dir, subbuf_size, n_subbufs, &callbacks, NULL);
	if (!chan) {
		pr_err("cannot open a channel of %u sub-buffers of %u bytes\n", n_subbufs,
		       subbuf_size);
		debugfs_remove(dir);
		return -ENOMEM;
	}

	debugfs_create_u32("subbuf_size", 0400, dir, &subbuf_size);
	debugfs_create_u32("n_subbufs", 0400, dir, &n_subbufs);
	debugfs_create_file("mode", 0400, dir, NULL, &mode_fops);
	debugfs_create_file("dropped", 0400, dir, NULL, &dropped_fops);
	debugfs_create_file("log", 0200, dir, NULL, &log_fops);
	return 0;
}

static void __exit relay_c_client_exit(void)
{
	/* Waits for running writes; no process can write to the channel afterwards. */
	debugfs_lookup_and_remove("log", dir);
	relay_close(chan);
	debugfs_remove(dir);
}

module_init(relay_c_client_init);
module_exit(relay_c_client_exit);
MODULE_DESCRIPTION("Sample: relay client in C");
MODULE_LICENSE("GPL");
