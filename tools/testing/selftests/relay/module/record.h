/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The records that relay_selftest.ko writes and the programs check: the same
 * text is compiled into both, so that every byte of a record follows from
 * its CPU, context, sequence number and length.
 */
#ifndef _RELAY_SELFTEST_RECORD_H
#define _RELAY_SELFTEST_RECORD_H

#define RST_MAGIC	0x52535431u	/* "RST1" */
#define RST_MAX_LEN	(64 * 1024)

enum rst_ctx {
	RST_TASK,
	RST_IRQ,
	RST_NR_CTX,
};

/* Head of every record that is long enough to hold it. */
struct rst_head {
	__u32 magic;
	__u16 cpu;
	__u16 ctx;
	__u32 seq;
	__u32 len;
};

static inline __u8 rst_byte(unsigned int cpu, unsigned int ctx,
			    unsigned int seq, unsigned int i)
{
	return (__u8)(seq * 31 + i * 7 + (i >> 8) * 3 + cpu * 13 + ctx * 101 + 5);
}

/* A record of @len bytes, all of which are determined by the arguments. */
static inline void rst_fill(__u8 *dst, unsigned int cpu, unsigned int ctx,
			    unsigned int seq, unsigned int len)
{
	unsigned int i = 0;

	if (len >= sizeof(struct rst_head)) {
		struct rst_head head = {
			.magic = RST_MAGIC,
			.cpu = (__u16)cpu,
			.ctx = (__u16)ctx,
			.seq = seq,
			.len = len,
		};

		memcpy(dst, &head, sizeof(head));
		i = sizeof(head);
	}
	for (; i < len; i++)
		dst[i] = rst_byte(cpu, ctx, seq, i);
}

/* Length of record @seq when lengths vary: at least a head, at most @max. */
static inline unsigned int rst_vary(unsigned int seq, unsigned int max)
{
	unsigned int head = sizeof(struct rst_head);

	return head + (seq * 37) % (max - head + 1);
}

#endif
