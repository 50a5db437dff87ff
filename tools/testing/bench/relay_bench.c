// SPDX-License-Identifier: GPL-2.0
/*
 * Measures the operations of <linux/relay.h> when it is loaded, and prints a line "relay_bench: OPERATION NANOSECONDS"
 * for each. In a guest whose nanoseconds are instructions (ICOUNT=1) the figures repeat.
 *
 * Loading always fails, with -EAGAIN when all went well: nothing of it is to stay.
 */
#include <linux/debugfs.h>
#include <linux/irqflags.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/relay.h>

#define SUBBUF_SIZE	(64 * 1024)
#define N_SUBBUFS	8
#define WRITES		2000
#define OPENS		8

static struct dentry *dir;
static u8 record[1024];

static struct dentry *create_file(const char *name, struct dentry *parent, umode_t mode,
				  struct rchan_buf *buf, int *is_global)
{
	return debugfs_create_file(name, mode, parent, buf, &relay_file_operations);
}

static int remove_file(struct dentry *dentry)
{
	debugfs_remove(dentry);
	return 0;
}

/* Overwrite mode: every write succeeds. */
static int subbuf_start(struct rchan_buf *buf, void *subbuf, void *prev_subbuf)
{
	return 1;
}

static const struct rchan_callbacks callbacks = {
	.create_buf_file = create_file,
	.remove_buf_file = remove_file,
	.subbuf_start = subbuf_start,
};

static struct rchan *open_channel(void)
{
	return relay_open("bench", dir, SUBBUF_SIZE, N_SUBBUFS, &callbacks, NULL);
}

/* Runs OP WRITES times without interrupts; the cost of the loop itself is in EMPTY. */
#define PER_OPERATION(op)						\
({									\
	unsigned long flags;						\
	u64 begin, end;							\
	int i;								\
									\
	local_irq_save(flags);						\
	begin = ktime_get_ns();						\
	for (i = 0; i < WRITES; i++) {					\
		op;							\
		barrier();						\
	}								\
	end = ktime_get_ns();						\
	local_irq_restore(flags);					\
	end - begin;							\
})

static void print_cost(const char *what, size_t size, u64 time, u64 empty)
{
	pr_info("relay_bench: %s(%zu) %llu\n", what, size, (time - empty) / WRITES);
}

static void bench_writes(struct rchan *chan)
{
	static const size_t sizes[] = { 8, 64, 256, 1024 };
	u64 empty = PER_OPERATION((void)0);
	int k;

	for (k = 0; k < ARRAY_SIZE(sizes); k++)
		print_cost("relay_write", sizes[k],
			   PER_OPERATION(relay_write(chan, record, sizes[k])), empty);
	for (k = 0; k < ARRAY_SIZE(sizes); k++)
		print_cost("__relay_write", sizes[k],
			   PER_OPERATION(__relay_write(chan, record, sizes[k])), empty);
	print_cost("relay_reserve", 64, PER_OPERATION(relay_reserve(chan, 64)), empty);
}

static int bench_open_close(void)
{
	u64 opening = 0, closing = 0, begin, middle;
	int i;

	for (i = 0; i < OPENS; i++) {
		struct rchan *chan;

		begin = ktime_get_ns();
		chan = open_channel();
		middle = ktime_get_ns();
		if (!chan)
			return -ENOMEM;
		relay_close(chan);
		closing += ktime_get_ns() - middle;
		opening += middle - begin;
	}
	pr_info("relay_bench: relay_open() %llu\n", opening / OPENS);
	pr_info("relay_bench: relay_close() %llu\n", closing / OPENS);
	return 0;
}

static int __init bench_init(void)
{
	struct rchan *chan;
	int ret;

	dir = debugfs_create_dir("relay_bench", NULL);
	chan = open_channel();
	if (!chan) {
		ret = -ENOMEM;
		goto out;
	}
	bench_writes(chan);
	relay_close(chan);
	ret = bench_open_close();
out:
	debugfs_remove(dir);
	return ret ?: -EAGAIN;
}
module_init(bench_init);

MODULE_DESCRIPTION("Cost of the relay interface's operations");
MODULE_LICENSE("GPL");
