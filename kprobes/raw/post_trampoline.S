/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The trampoline that the copy of an instruction calls when it has run and its probe has a
 * post-handler.
 *
 * The copy runs with interrupts off, mostly. Above the stack pointer is the return address into the
 * copy, which identifies the copy. struct pt_regs is made around it, in the place of ss, and iret
 * resumes at the ip that the handlers leave.
 *
 * Copies stop at a breakpoint instead if iret and cli must not be executed, or only by the kernel's
 * own entry code: engine.c.
 */
#include <linux/linkage.h>
#include <linux/objtool.h>
#include <asm/asm-offsets.h>
#include <asm/segment.h>
#include <asm/smap.h>
#include <asm/unwind_hints.h>

#include "../builtin/regs.inc"

	.section .kprobes.text, "ax"

SYM_CODE_START(ferro_kprobe_post_trampoline)
	/* Its address is taken for the distance of direct calls. */
	ANNOTATE_NOENDBR
	UNWIND_HINT_UNDEFINED
	pushq	%rsp
	pushfq
	ASM_CLAC
	cli
	pushq	$__KERNEL_CS
	pushq	$0
	pushq	$-1
	SAVE_GENERAL_REGS
	UNWIND_HINT_REGS
	cld
	movq	%rsp, %rdi
	call	ferro_kprobe_posted
	RESTORE_GENERAL_REGS
	leaq	8(%rsp), %rsp
	UNWIND_HINT_IRET_REGS
	iretq
SYM_CODE_END(ferro_kprobe_post_trampoline)
