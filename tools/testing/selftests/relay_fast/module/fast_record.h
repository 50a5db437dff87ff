/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Records that relay_fast_selftest.ko writes and the programs check. They have the bytes of the
 * relay selftests' records. Here, everything else about a record follows from its context and
 * sequence number too: its length, if it has a time, how it is written, and if it is given up.
 */
#ifndef _RELAY_FAST_SELFTEST_RECORD_H
#define _RELAY_FAST_SELFTEST_RECORD_H

#include "../../relay/module/record.h"

enum fst_ctx {
	FST_TASK,
	FST_SOFTIRQ,
	FST_IRQ,
	FST_NMI,
	FST_NR_CTX,
};

/* The type of a record: its context, and as much of its sequence number as fits. */
#define FST_SEQ_BITS	14
#define FST_SEQ_MASK	((1u << FST_SEQ_BITS) - 1)

static inline __u16 fst_type(unsigned int ctx, unsigned int seq)
{
	return (__u16)((seq & FST_SEQ_MASK) << 2 | ctx);
}

struct fst_plan {
	unsigned int len;
	unsigned int delay;	/* turns of a loop between reserve and commit */
	_Bool timed;
	_Bool in_place;		/* reserve and commit, rather than one call */
	_Bool discard;
	_Bool nest;		/* write another one before this is committed */
	_Bool nmi;		/* have an NMI before this is committed */
};

/* Record @seq of @ctx in a channel with sub-buffers of @subbuf bytes. */
static inline struct fst_plan fst_plan(unsigned int ctx, unsigned int seq, unsigned int subbuf)
{
	unsigned int h = ((seq & FST_SEQ_MASK) * 4 + ctx) * 2654435761u;
	struct fst_plan p = {};
	unsigned int max;

	h ^= h >> 15;
	h *= 2246822519u;
	h ^= h >> 13;
	p.timed = h & 1;
	p.in_place = h & 2;
	p.discard = p.in_place && (h >> 2) % 16 == 0;
	p.nest = p.in_place && (h >> 6) % 8 == 0;
	p.nmi = p.in_place && (h >> 9) % 8 == 0;
	p.delay = p.in_place ? (h >> 12) % 64 : 0;
	h *= 3266489917u;
	h ^= h >> 16;
	max = subbuf - (p.timed ? 16 : 8);
	switch (h % 256) {
	case 0:
		p.len = max;
		break;
	case 1:
		/* fits nowhere */
		p.len = max + 1;
		break;
	case 2:
		p.len = 0;
		break;
	case 3 ... 10:
		p.len = (h >> 8) % ((max < 4096 ? max : 4096) + 1);
		break;
	default:
		p.len = (h >> 8) % ((max < 96 ? max : 96) + 1);
	}
	/* The copied length must be small enough for the copy. */
	if (p.len > RST_MAX_LEN)
		p.in_place = 1;
	return p;
}

#endif
