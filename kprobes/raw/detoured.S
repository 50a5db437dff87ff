/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Where a detour calls, which stands in for a breakpoint: detour.rs writes detours, and engine.rs of this directory has jumps go there.
 *
 * The detour has pushed ss, sp, flags, cs and ip of struct pt_regs; its return address is in the place of orig_ax. In
 * front of the detour is the point. With all of them on the stack, an unwinder finds the probed function and its callers.
 */
#include <linux/linkage.h>
#include <linux/objtool.h>
#include <asm/nospec-branch.h>
#include <asm/segment.h>
#include <asm/unwind_hints.h>

#include "../builtin/regs.inc"
#include "detour.h"

	.section .kprobes.text, "ax"

SYM_CODE_START(ferro_kprobe_detour)
	/* Its address is taken for the distance of direct calls. */
	ANNOTATE_NOENDBR
	UNWIND_HINT_IRET_REGS offset=8
	SAVE_GENERAL_REGS
	UNWIND_HINT_REGS
	movq	15*8(%rsp), %rbx
	movq	$-1, 15*8(%rsp)
	cld
	movq	%rsp, %rdi
	movq	-FERRO_DETOUR_POINT(%rbx), %rsi
	call	ferro_kprobe_detoured
	testb	%al, %al
	jnz	.Ldiverted
	/* In the place of ss, for the return. */
	movq	%rbx, 20*8(%rsp)
	RESTORE_GENERAL_REGS
	UNWIND_HINT_IRET_REGS offset=8
	leaq	3*8(%rsp), %rsp
	UNWIND_HINT_UNDEFINED
	popfq
	leaq	8(%rsp), %rsp
	UNWIND_HINT_FUNC
	RET

/*
 * A handler wants to go on elsewhere. It may have changed the stack pointer as well, and at a word below it may be what it has
 * pushed, in the place of ss: the registers are moved out of the way, and where it goes on is put below its stack pointer.
 */
.Ldiverted:
	UNWIND_HINT_UNDEFINED
	movq	%rsp, %rsi
	leaq	-FERRO_DETOUR_AWAY(%rsp), %rsp
	movq	%rsp, %rdi
	movl	$20, %ecx
	rep movsq
	movq	19*8(%rsp), %rax
	movq	16*8(%rsp), %rdx
	leaq	-8(%rax), %rax
	movq	%rdx, (%rax)
	movq	%rax, 19*8(%rsp)
	RESTORE_GENERAL_REGS
	leaq	3*8(%rsp), %rsp
	popfq
	popq	%rsp
	UNWIND_HINT_FUNC
	RET
SYM_CODE_END(ferro_kprobe_detour)
