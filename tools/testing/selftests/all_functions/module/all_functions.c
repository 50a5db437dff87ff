// SPDX-License-Identifier: GPL-2.0
/*
 * kprobes_all_functions: probes anywhere in the kernel, in batches, while it runs. Offsets from _text, one
 * a line, are written to debugfs kprobes_all_functions, which then reads as "OFFSET ERROR" for each; the
 * probes are unregistered by then.
 *
 * With disabled=1 probes are registered disabled, so that no CPU hits them. With the C engine and
 * get_kprobe= there is then a third word: 1 where the engine would place a jump. It prepares the
 * jump while it registers, and has its own probe at the place then.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/debugfs.h>
#include <linux/delay.h>
#include <linux/kprobes.h>
#include <linux/kstrtox.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#define BATCH 512

static unsigned long text;
module_param(text, ulong, 0400);
MODULE_PARM_DESC(text, "the address of _text");
static unsigned int ms = 20;
module_param(ms, uint, 0600);
MODULE_PARM_DESC(ms, "how long probes stay, in milliseconds");
static bool disabled;
module_param(disabled, bool, 0400);
MODULE_PARM_DESC(disabled, "only register: nothing is patched");
static unsigned long get_kprobe_is;
module_param_named(get_kprobe, get_kprobe_is, ulong, 0400);
MODULE_PARM_DESC(get_kprobe, "the address of get_kprobe(): ask the C engine for its jumps");

static atomic_long_t hits;

static struct place {
	struct kprobe kp;
	unsigned long offset;
	int error;
	bool jumps;
} places[BATCH];
static unsigned int count;
static DEFINE_MUTEX(lock);

static int on_hit(struct kprobe *p, struct pt_regs *regs)
{
	atomic_long_inc(&hits);
	return 0;
}
NOKPROBE_SYMBOL(on_hit);

static int parse(char *lines)
{
	char *line;
	int ret;

	count = 0;
	while ((line = strsep(&lines, "\n")) != NULL) {
		if (!*line)
			continue;
		if (count == BATCH)
			return -E2BIG;
		ret = kstrtoul(line, 16, &places[count].offset);
		if (ret)
			return ret;
		count++;
	}
	return 0;
}

/* Returns true if the C engine has its own probe at the place, in front of the only other one. */
static bool is_prepared(struct kprobe *kp)
{
	struct kprobe *found;

	preempt_disable();
	found = ((typeof(get_kprobe) *)get_kprobe_is)(kp->addr);
	preempt_enable();
	return found != kp;
}

static int probe_all(void)
{
	struct kprobe **accepted = kcalloc(BATCH, sizeof(*accepted), GFP_KERNEL);
	unsigned int i, n = 0;

	if (!accepted)
		return -ENOMEM;
	for (i = 0; i < count; i++) {
		struct place *place = &places[i];

		place->kp = (struct kprobe){
			.addr = (void *)(text + place->offset), .pre_handler = on_hit,
			.flags = disabled ? KPROBE_FLAG_DISABLED : 0,
		};
		place->error = register_kprobe(&place->kp);
		place->jumps = !place->error && get_kprobe_is && is_prepared(&place->kp);
		if (!place->error)
			accepted[n++] = &place->kp;
		cond_resched();
	}
	/* time for hits */
	if (!disabled)
		msleep(ms);
	unregister_kprobes(accepted, n);
	kfree(accepted);
	return 0;
}

static ssize_t every_write(struct file *file, const char __user *from, size_t len, loff_t *pos)
{
	char *lines;
	int ret;

	if (len > SZ_64K)
		return -E2BIG;
	lines = memdup_user_nul(from, len);
	if (IS_ERR(lines))
		return PTR_ERR(lines);
	scoped_guard(mutex, &lock) {
		ret = parse(lines);
		if (!ret)
			ret = probe_all();
	}
	kfree(lines);
	return ret ?: len;
}

static int every_show(struct seq_file *m, void *unused)
{
	unsigned int i;

	guard(mutex)(&lock);
	for (i = 0; i < count; i++) {
		seq_printf(m, "%#lx %d", places[i].offset, places[i].error);
		seq_printf(m, get_kprobe_is ? " %d\n" : "\n", places[i].jumps);
	}
	return 0;
}

static int every_open(struct inode *inode, struct file *file)
{
	return single_open(file, every_show, NULL);
}

static const struct file_operations every_fops = {
	.owner = THIS_MODULE,
	.open = every_open,
	.read = seq_read,
	.llseek = seq_lseek,
	.release = single_release,
	.write = every_write,
};

static struct dentry *file;

static int __init every_init(void)
{
	if (!text)
		return -EINVAL;
	file = debugfs_create_file("kprobes_all_functions", 0600, NULL, NULL, &every_fops);
	return 0;
}
module_init(every_init);

static void __exit every_exit(void)
{
	debugfs_remove(file);
	pr_info("%ld hits\n", atomic_long_read(&hits));
}
module_exit(every_exit);

MODULE_AUTHOR("Ferrotrace maintainers");
MODULE_DESCRIPTION("Probes anywhere in the kernel");
MODULE_LICENSE("GPL v2");
