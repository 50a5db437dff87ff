/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Functions with branches into their middle, for jump_into.c; and functions of jump_held.c.
 * kst_places has the addresses of their instructions: a global label would end the symbol, which
 * only kst_into_label should have.
 */
#include <linux/linkage.h>
#include <asm/alternative.h>
#include <asm/asm.h>
#include <asm/cpufeatures.h>

	.text

/* A branch back to .Lloop_target: 2 + 2 * @times */
SYM_FUNC_START(kst_into_loop)
	xor	%eax, %eax
.Lloop_before:
	inc	%eax
	inc	%eax
.Lloop_target:
	lea	1(%rax), %eax
	inc	%eax
.Lloop_branch:
	dec	%edi
	jne	.Lloop_target
	RET
SYM_FUNC_END(kst_into_loop)

/* A table leads to .Lswitch_inside and the two after it: 14 - @way */
SYM_FUNC_START(kst_into_switch)
	xor	%eax, %eax
	cmp	$2, %rdi
	ja	.Lswitch_end
	jmp	*.Lswitch_table(, %rdi, 8)
.Lswitch_inside:
	inc	%eax
.Lswitch_1:
	inc	%eax
.Lswitch_2:
	inc	%eax
.Lswitch_after:
	lea	10(%rax), %eax
	inc	%eax
.Lswitch_end:
	RET
SYM_FUNC_END(kst_into_switch)

	.pushsection .rodata, "a"
	.balign	8
.Lswitch_table:
	.quad	.Lswitch_inside, .Lswitch_1, .Lswitch_2
	.popsection

/* Value at @from, or 3 if that faults. */
SYM_FUNC_START(kst_into_fixup)
	xor	%eax, %eax
.Lfixup_faults:
	mov	(%rdi), %rax
	jmp	.Lfixup_end
.Lfixup_before:
	inc	%eax
.Lfixup_target:
	inc	%eax
	inc	%eax
	lea	1(%rax), %eax
.Lfixup_end:
	RET
	_ASM_EXTABLE(.Lfixup_faults, .Lfixup_target)
SYM_FUNC_END(kst_into_fixup)

/* From after a global label it jumps back to before it: 4 + 3 * @again */
SYM_FUNC_START(kst_into_label)
	xor	%eax, %eax
.Llabel_before:
	inc	%eax
.Llabel_middle:
	inc	%eax
	inc	%eax
	lea	1(%rax), %eax
SYM_INNER_LABEL(kst_into_label_inner, SYM_L_GLOBAL)
	sub	$1, %rdi
	jns	.Llabel_middle
	RET
SYM_FUNC_END(kst_into_label)

/* @a + 9 */
SYM_FUNC_START(kst_into_alternative)
	mov	%edi, %eax
.Lalternative:
	ALTERNATIVE "inc %eax", "add $7, %eax", X86_FEATURE_ALWAYS
	inc	%eax
	inc	%eax
	RET
SYM_FUNC_END(kst_into_alternative)

/* Returns one more than kst_asleep(), which sleeps. */
SYM_FUNC_START(kst_sleeps)
	xor	%eax, %eax
.Lsleeps:
	nop
	call	kst_asleep
	inc	%eax
	RET
SYM_FUNC_END(kst_sleeps)

/* Writes @count zeroes; @to + @count + 1. It takes its time in .Lfills_fill, where it can be interrupted. */
SYM_FUNC_START(kst_fills)
	mov	%rsi, %rcx
	xor	%eax, %eax
.Lfills:
	nop
.Lfills_fill:
	rep stosb
	inc	%eax
	lea	(%rdi, %rax), %rax
	RET
SYM_FUNC_END(kst_fills)

/*
 * @a + 1; and code that only kst_hidden leads to, as a static function of a stripped module: @a +
 * 42
 */
SYM_FUNC_START(kst_hides)
	lea	1(%rdi), %rax
.Lhides_end:
	ret
.Lhidden:
	lea	40(%rdi), %rax
	add	$2, %rax
	ret
SYM_FUNC_END(kst_hides)

	.pushsection .rodata, "a"
	.balign	8
	.globl	kst_hidden
kst_hidden:
	.quad	.Lhidden
	.popsection

/* Sum of the values at @a and, 0x10 further, at @b: the first instruction or the second faults. */
SYM_FUNC_START(kst_dies)
	nop
.Ldies:
	mov	(%rdi), %eax
	add	0x10(%rsi), %eax
	nop
	nop
	RET
SYM_FUNC_END(kst_dies)

/* Value at the user's address @a. */
SYM_FUNC_START(kst_of_user)
	stac
.Lof_user:
	mov	(%rdi), %eax
	nop
	nop
	nop
	nop
	clac
	RET
SYM_FUNC_END(kst_of_user)

	.section .rodata, "a"
	.balign	8
	.globl	kst_places
kst_places:
	/* enum kst_place */
	.quad	.Lloop_before, .Lloop_target, .Lloop_branch
	.quad	.Lswitch_inside, .Lswitch_after
	.quad	.Lfixup_faults, .Lfixup_before, .Lfixup_target
	.quad	.Llabel_before
	.quad	.Lalternative
	.quad	.Lsleeps
	.quad	.Lfills, .Lfills_fill
	.quad	.Lhides_end, .Ldies, .Lof_user
