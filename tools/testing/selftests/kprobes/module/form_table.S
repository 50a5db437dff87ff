/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Forms: one of each instruction form of the kernel that the module is built for, which insn-forms
 * (tools/testing/host) has chosen and written into forms.inc. Each is called by kst_call() and ends
 * at kst_exit_0 or, when it jumps, at label 2.
 *
 *	FORM_BEGIN
 *	its bytes, and expressions in place of bytes to change
 *	FORM_END group, flags, register, base, index, shift, displacement
 */
#include <linux/linkage.h>
#include <linux/objtool.h>
#include "forms.h"

/* Forms of a symbol: the engine decodes from its start. */
#define CHUNK	16

	.set	.Lform, 0
	.set	.Lleft, 0

.macro CHUNK_BEGIN number
	.type	kst_forms_\number, @function
kst_forms_\number:
.endm

/* As in rows.S, objtool does not follow their code. */
.macro CHUNK_END number
	.size	kst_forms_\number, . - kst_forms_\number
	STACK_FRAME_NON_STANDARD kst_forms_\number
.endm

.macro FORM_BEGIN
	.text
	.balign	16
	.if	.Lleft == 0
	.altmacro
	.if	.Lform
	CHUNK_END %(.Lform / CHUNK - 1)
	.endif
	CHUNK_BEGIN %(.Lform / CHUNK)
	.noaltmacro
	.set	.Lleft, CHUNK
	.endif
	.set	.Lleft, .Lleft - 1
	.set	.Lform, .Lform + 1
	nop
1:
.endm

.macro FORM_END group:req, flags, register, base, index, shift, displacement
3:	jmp	kst_exit_0
2:	jmp	kst_exit_1
	.section .rodata.str1.1, "aMS", @progbits, 1
4:	.asciz	"\group"
	.section .rodata.kst_forms, "a", @progbits
	.quad	4b, 1b, 3b, 2b
	.long	\displacement
	.word	\flags
	.byte	\register, \base, \index, \shift
	.fill	6, 1, 0
	.text
.endm

	.section .rodata.kst_forms, "a", @progbits
	.balign	8
	.globl	kst_forms
kst_forms:

#include "forms.inc"

	.altmacro
	CHUNK_END %((.Lform - 1) / CHUNK)
	.noaltmacro

	.section .rodata.kst_forms, "a", @progbits
	.globl	kst_forms_end
kst_forms_end:
	.quad	0, 0, 0, 0, 0, 0
	.text
	nop
