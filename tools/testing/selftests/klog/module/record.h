/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A message of the tests, for the module and the programs: every byte follows from the head. A
 * reader can check all bytes that it gets, and lost messages show as a gap in the sequence.
 */
#ifndef _KLOG_SELFTEST_RECORD_H
#define _KLOG_SELFTEST_RECORD_H

#include <linux/types.h>

#define KST_MAX		8192
#define KST_MAGIC	0x676f6c6bU

enum kst_context { KST_TASK, KST_SOFTIRQ, KST_IRQ, KST_NMI, KST_CONTEXTS };

struct kst_head {
	__u32 magic;
	__u32 len;		/* of all */
	__u32 seq;		/* of this CPU and context, from 0 */
	__u16 cpu;
	__u16 context;
};

static inline __u8 kst_byte(const struct kst_head *head, unsigned int i)
{
	return head->seq * 31 + head->cpu * 7 + head->context * 3 + i;
}

/* Returns true if @head is the head of a message with @len bytes at hand */
static inline int kst_head_good(const struct kst_head *head, unsigned long len)
{
	return head->magic == KST_MAGIC && head->len >= sizeof(*head) &&
	       head->len <= len && head->context < KST_CONTEXTS;
}

static inline int kst_good(const struct kst_head *head, const __u8 *data)
{
	unsigned int i;

	for (i = sizeof(*head); i < head->len; i++)
		if (data[i] != kst_byte(head, i))
			return 0;
	return 1;
}

/* Of a storm, the length of message @seq. */
static inline unsigned int kst_storm_len(unsigned int seq)
{
	return sizeof(struct kst_head) + seq * 13 % 97;
}

#endif
