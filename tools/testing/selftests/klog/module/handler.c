// SPDX-License-Identifier: GPL-2.0
/* Handlers, which record their messages and check that they may be called. */
#include <linux/fs.h>
#include <linux/irqflags.h>
#include <linux/jiffies.h>
#include <linux/klog.h>
#include <linux/percpu.h>
#include <linux/preempt.h>
#include <linux/sched.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include "klog_selftest.h"

struct handler {
	atomic_t count;
	/* defects: called after its removal, torn messages, interrupts on, two calls at a time */
	atomic_t late;
	atomic_t torn;
	atomic_t irqs_on;
	atomic_t again;
	bool gone;
};

static struct handler a, b;
static DEFINE_PER_CPU(int, inside);
static int last_len;
static u8 last[KST_MAX];

static void take(struct handler *h, const void *data, int len)
{
	const struct kst_head *head = data;

	if (READ_ONCE(h->gone))
		atomic_inc(&h->late);
	if (!irqs_disabled())
		atomic_inc(&h->irqs_on);
	if (this_cpu_inc_return(inside) != 1)
		atomic_inc(&h->again);

	if (len >= (int)sizeof(*head) && head->magic == KST_MAGIC &&
	    (head->len != len || !kst_good(head, data)))
		atomic_inc(&h->torn);
	atomic_inc(&h->count);

	this_cpu_dec(inside);
	/* Its code may be freed in the meantime, if the unregistration did not wait. */
	if (READ_ONCE(h->gone))
		atomic_inc(&h->late);
}

static void klog_a(const void *data, int len)
{
	take(&a, data, len);
}

static void klog_b(const void *data, int len)
{
	take(&b, data, len);
}

/* For messages that are logged one at a time. */
static void klog_last(const void *data, int len)
{
	memcpy(last, data, min_t(size_t, len, sizeof(last)));
	WRITE_ONCE(last_len, len);
	take(&a, data, len);
}

static void log_in_nmi(void *unused)
{
	kst_log(KST_NMI, 64);
	klog_printk("in an NMI");
}

/* Logs a message itself, and makes an NMI log on the same CPU. */
static void klog_nesting(const void *data, int len)
{
	take(&a, data, len);
	klog("again", 5);
	klog_printk("%s", "again");
	if (kst_have_nmi() && !in_nmi())
		kst_send_nmi(raw_smp_processor_id(), log_in_nmi, NULL);
}

static const struct klog_operations ops_a = { .klog = klog_a };
static const struct klog_operations ops_b = { .klog = klog_b };
static const struct klog_operations ops_last = { .klog = klog_last };
static const struct klog_operations ops_nesting = { .klog = klog_nesting };
static const struct klog_operations ops_none = { };

int kst_register(const char *which)
{
	if (!strcmp(which, "a")) {
		WRITE_ONCE(a.gone, false);
		return register_klog_handler(&ops_a);
	}
	if (!strcmp(which, "b")) {
		WRITE_ONCE(b.gone, false);
		return register_klog_handler(&ops_b);
	}
	if (!strcmp(which, "last"))
		return register_klog_handler(&ops_last);
	if (!strcmp(which, "nesting"))
		return register_klog_handler(&ops_nesting);
	if (!strcmp(which, "noop"))
		return register_klog_handler(&ops_none);
	if (!strcmp(which, "null"))
		return register_klog_handler(NULL);
	return -EOPNOTSUPP;
}

void kst_unregister(void)
{
	unregister_klog_handler();
}

/* Returns true if a message was logged to it since it was registered. */
static bool is_called(struct handler *h)
{
	unsigned long end = jiffies + 60 * HZ;
	int before = atomic_read(&h->count);

	while (atomic_read(&h->count) == before && time_before(jiffies, end))
		schedule_timeout_interruptible(1);
	return atomic_read(&h->count) != before;
}

/*
 * Replaces and removes handlers; a removed handler must not be called once the removal has
 * returned. In some rounds the handlers are called in between, in the others timing is left to
 * chance.
 */
int kst_churn(unsigned int rounds)
{
	while (rounds--) {
		kst_register("a");
		WRITE_ONCE(b.gone, true);
		if (rounds % 8 == 0 && !is_called(&a))
			return -ETIMEDOUT;
		kst_register("b");
		WRITE_ONCE(a.gone, true);
		if (rounds % 8 == 0 && !is_called(&b))
			return -ETIMEDOUT;
		if (rounds % 2) {
			unregister_klog_handler();
			WRITE_ONCE(b.gone, true);
		}
	}
	unregister_klog_handler();
	WRITE_ONCE(a.gone, true);
	WRITE_ONCE(b.gone, true);
	return 0;
}

static void show(struct seq_file *m, const char *name, struct handler *h)
{
	seq_printf(m, "%s.count %d\n", name, atomic_read(&h->count));
	seq_printf(m, "%s.late %d\n", name, atomic_read(&h->late));
	seq_printf(m, "%s.torn %d\n", name, atomic_read(&h->torn));
	seq_printf(m, "%s.irqs_on %d\n", name, atomic_read(&h->irqs_on));
	seq_printf(m, "%s.again %d\n", name, atomic_read(&h->again));
}

void kst_handlers_show(struct seq_file *m)
{
	show(m, "a", &a);
	show(m, "b", &b);
	seq_printf(m, "len %d\n", READ_ONCE(last_len));
}

void kst_handlers_reset(void)
{
	memset(&a, 0, sizeof(a));
	memset(&b, 0, sizeof(b));
	last_len = -1;
}

ssize_t kst_last(char __user *to, size_t count, loff_t *pos)
{
	size_t len = clamp(last_len, 0, KST_MAX);

	return simple_read_from_buffer(to, count, pos, last, len);
}
