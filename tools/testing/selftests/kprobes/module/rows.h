/* SPDX-License-Identifier: GPL-2.0 */
/* Declarations that rows.S and insn.c share. */
#ifndef _KST_ROWS_H
#define _KST_ROWS_H

/* Needs of a row, and parts of the state that are not compared. */
#define KST_FPU		0x01	/* the FPU */
#define KST_AVX		0x02	/* a processor with AVX */
#define KST_POPCNT	0x04
#define KST_RDTSCP	0x08
#define KST_NO_AX	0x10	/* RAX and RDX are from a clock */
#define KST_NO_CX	0x20
#define KST_JUMPS	0x40	/* execution resumes somewhere else */
#define KST_NINE	0x80	/* is executed nine times */
/* Set by the macro. */
#define KST_BARE	0x100	/* nothing before the instruction changes the state */
#define KST_STRAIGHT	0x200	/* nothing after it does */

/* struct kst_regs */
#define KST_SP		(4 * 8)
#define KST_FLAGS	(16 * 8)

/* Functions of a batch, and where in each is the instruction that is probed. */
#define KST_MANY	1000
#define KST_MANY_SIZE	32
#define KST_MANY_AT	1

/* From one probed instruction of kst_long() to the next. */
#define KST_LONG_STEP	16

#ifndef __ASSEMBLER__

/* In the order of the processor's numbers: ax cx dx bx sp bp si di r8 ... r15 */
struct kst_regs {
	unsigned long gpr[16];
	unsigned long flags;
};

struct kst_row {
	const char *name;
	u8 *start;
	u8 *at;
	u8 *end;
	unsigned long flags;
};

extern const struct kst_row kst_rows[], kst_rows_end[];

/* Calls the row at @start with the registers @in, and fills @out with the registers at its end. */
void kst_call(const struct kst_regs *in, struct kst_regs *out, const void *start);

/* The exit through which the row ended. */
extern u8 kst_way;

/* insn.c: values that the handlers have seen of one call. */
struct kst_seen {
	unsigned int pre, post;
	/* Pre handlers called after a post handler. */
	unsigned int late;
	unsigned long pre_ip, post_ip, post_flags;
	struct kst_regs pre_regs, post_regs;
};

extern struct kst_seen kst_seen;
int kst_on_pre(struct kprobe *p, struct pt_regs *regs);
void kst_on_post(struct kprobe *p, struct pt_regs *regs, unsigned long flags);

/* Return true if they are equal; log differences, except those that @flags excuse. */
bool kst_same_regs(const char *what, const struct kst_regs *want, const struct kst_regs *have, unsigned long flags);
bool kst_same_bytes(const char *what, const u8 *want, const u8 *have, unsigned int size);

/* Memory of the rows' memory operands. */
extern u8 kst_mem[4096];

#endif

#endif /* _KST_ROWS_H */
