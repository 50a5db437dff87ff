// SPDX-License-Identifier: GPL-2.0
/*
 * Two channels with the same records, for readers to be measured with. In debugfs, relay_fill/:
 *   relay0, ...	files of a relay channel
 *   fast0, ...		files of a fast channel
 *   fill		writing N writes N records to both channels' buffers of this CPU
 *
 * A record has 64 bytes of data. In the relay channel it gets the header that it has in the fast one.
 */
#include <linux/debugfs.h>
#include <linux/err.h>
#include <linux/fs.h>
#include <linux/module.h>

#include "bench.h"

static struct {
	struct relay_fast_record header;
	u64 data[8];
} record = { .header = { .len = 64, .type = 1 } };

static struct dentry *dir, *control;
static struct rchan *relay;
static struct relay_fast *fast;

static const struct rchan_callbacks callbacks = {
	.create_buf_file = bench_create_file,
	.remove_buf_file = bench_remove_file,
};

static int fill(void *unused, u64 records)
{
	u64 i;

	for (i = 0; i < records; i++) {
		record.data[0] = i;
		relay_write(relay, &record, sizeof(record));
		if (!relay_fast_write(fast, record.header.type, record.data, sizeof(record.data)))
			return -ENOSPC;
	}
	return 0;
}
DEFINE_DEBUGFS_ATTRIBUTE(fill_fops, NULL, fill, "%llu\n");

static int __init fill_init(void)
{
	dir = debugfs_create_dir("relay_fill", NULL);
	relay = relay_open("relay", dir, SUBBUF_SIZE, N_SUBBUFS, &callbacks, NULL);
	fast = relay_fast_open("fast", dir, SUBBUF_SIZE, N_SUBBUFS, 0, NULL);
	if (!relay || IS_ERR(fast)) {
		if (relay)
			relay_close(relay);
		relay_fast_close(fast);
		debugfs_remove(dir);
		return -ENOMEM;
	}
	control = debugfs_create_file("fill", 0200, dir, NULL, &fill_fops);
	return 0;
}

static void __exit fill_exit(void)
{
	debugfs_remove(control);
	relay_close(relay);
	relay_fast_close(fast);
	debugfs_remove(dir);
}

module_init(fill_init);
module_exit(fill_exit);

MODULE_DESCRIPTION("Records for the measurement of readers");
MODULE_LICENSE("GPL");
