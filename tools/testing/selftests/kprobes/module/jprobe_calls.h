/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _KPROBES_SELFTEST_JPROBE_CALLS_H
#define _KPROBES_SELFTEST_JPROBE_CALLS_H

/* Offsets in struct kst_state. */
#define KST_RBX		0
#define KST_RBP		8
#define KST_R12		16
#define KST_R13		24
#define KST_R14		32
#define KST_R15		40
#define KST_RFLAGS	48
#define KST_RAX		56
#define KST_R10		64
#define KST_R11		72

#ifndef __ASSEMBLER__

/* Registers that are no arguments. */
struct kst_state {
	unsigned long saved[6];
	unsigned long flags;
	unsigned long scratch[3];
};

extern struct kst_state kst_jprobe_seen;

void kst_store(void);
void kst_call_in(const struct kst_state *in, struct kst_state *out, void *function);
void kst_call_on(void *sp, void *function);

#endif /* __ASSEMBLER__ */

#endif /* _KPROBES_SELFTEST_JPROBE_CALLS_H */
