/* SPDX-License-Identifier: GPL-2.0 */
/* Declarations that form_table.S and forms.c share. */
#ifndef _KST_FORMS_H
#define _KST_FORMS_H

/* Preparations before a form is called: as in tools/testing/host/src/forms/setting.rs. */
#define KST_FORM_MEMORY		0x01	/* the operand is in memory */
#define KST_FORM_PERCPU		0x02	/* which is of this CPU */
#define KST_FORM_JUMPS		0x04	/* may go on at the other end */
#define KST_FORM_TO_REGISTER	0x08	/* the register has the other end's address */
#define KST_FORM_TO_MEMORY	0x10	/* the operand has it */
#define KST_FORM_TO_STACK	0x20	/* the top of the stack has it */
#define KST_FORM_STRING		0x40	/* RSI and RDI are pointers, RCX is small */
#define KST_FORM_DIVIDES	0x80	/* must not overflow; the register is the divisor */
#define KST_FORM_BIT		0x100	/* the register is the number of a bit */
#define KST_FORM_POPS_FLAGS	0x200	/* the top of the stack is for the flags */
#define KST_FORM_MOVES_STACK	0x400	/* the contents below the old stack pointer are undefined */
#define KST_FORM_PUSHES_FLAGS	0x800

/* No register. */
#define KST_FORM_NONE		0xff

/* The memory of forms, and where in it operands are. */
#define KST_FORM_SIZE		256
#define KST_FORM_OPERAND	128

#ifndef __ASSEMBLER__

struct kst_form {
	const char *group;
	u8 *at;
	u8 *end;
	/* Address of the next instruction if that is not the one after the form. */
	u8 *other;
	s32 displacement;
	u16 flags;
	u8 reg, base, index, shift;
	u8 unused[6];
};

extern const struct kst_form kst_forms[], kst_forms_end[];
extern u8 kst_form_mem[KST_FORM_SIZE];

#endif

#endif /* _KST_FORMS_H */
