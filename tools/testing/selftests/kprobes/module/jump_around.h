/* SPDX-License-Identifier: GPL-2.0 */
/*
 * jump_around_places.S: functions with an instruction that is probed.
 */
#ifndef _KPROBES_JUMP_AROUND_H
#define _KPROBES_JUMP_AROUND_H

#ifndef __ASSEMBLER__

/* A result, and the flags after the instruction. */
struct kst_pair {
	long value;
	unsigned long flags;
};

/* The function; the starts of the instruction and of the next one; the kind of the instruction. */
struct kst_around_place {
	struct kst_pair (*call)(long a, long b);
	void *at, *next;
	const char *insn;
};

extern const struct kst_around_place kst_around[], kst_around_end[];

/* Assembly has no type that CFI could compare. */
static inline __nocfi struct kst_pair kst_call_around(const struct kst_around_place *place, long a, long b)
{
	return place->call(a, b);
}

#endif

#endif /* _KPROBES_JUMP_AROUND_H */
