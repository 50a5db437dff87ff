/* SPDX-License-Identifier: GPL-2.0 */
/* Declarations that the cases of jump.* share. */
#ifndef _KST_JUMP_H
#define _KST_JUMP_H

#include <linux/kprobes.h>
#include <linux/types.h>

#include "kprobes_selftest.h"

#define KST_JUMP 0xe9
#define KST_INT3 0xcc

/* A probe, and the values that its handlers have found. */
struct kst_hit {
	struct kprobe kp;
	unsigned int pre, post;
	unsigned long ax, ip, sp, flags;
};

/* A probe with the handler kst_hit_pre(), which notes each hit. */
struct kprobe *kst_hit_at(struct kst_hit *hit, const void *where, u32 flags);
int kst_hit_pre(struct kprobe *p, struct pt_regs *regs);

/* jump_around.c: writes a byte of code, as a debugger does. */
void kst_poke(void *at, u8 byte);

/* Waits until an instruction begins with this byte. */
bool kst_becomes(const void *where, u8 byte);

/*
 * Returns true if a breakpoint stays at @where: another probe, registered after the one there, has
 * a jump already. False if the other one gets none either.
 */
bool kst_stays_breakpoint(const void *where);

/* jump.c: a function of six instructions of two bytes, and where they are; it returns @a + 6. */
unsigned long kst_jump(unsigned long a);
void *kst_jump_place(unsigned int n);

/* jump_code.S */
unsigned long kst_into_loop(unsigned long times);
unsigned long kst_into_switch(unsigned long way);
unsigned long kst_into_fixup(const unsigned long *from);
unsigned long kst_into_label(unsigned long again);
unsigned long kst_into_alternative(unsigned long a);
unsigned long kst_sleeps(unsigned long a);
unsigned long kst_fills(u8 *to, unsigned long count);
unsigned long kst_hides(unsigned long a);
extern const void * const kst_hidden;
unsigned int kst_dies(const void *a, const void *b);
unsigned int kst_of_user(const u32 __user *a);

/* jump_held.c */
unsigned long kst_asleep(unsigned long a);

/* Instructions in there. */
enum kst_place {
	KST_LOOP_BEFORE, KST_LOOP_TARGET, KST_LOOP_BRANCH,
	KST_SWITCH_INSIDE, KST_SWITCH_AFTER,
	KST_FIXUP_FAULTS, KST_FIXUP_BEFORE, KST_FIXUP_TARGET,
	KST_LABEL_BEFORE,
	KST_ALTERNATIVE,
	KST_SLEEPS,
	KST_FILLS, KST_FILLS_FILL,
	KST_HIDES_END, KST_DIES, KST_OF_USER,
};

extern u8 * const kst_places[];

#endif /* _KST_JUMP_H */
