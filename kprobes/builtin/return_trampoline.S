/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Trampoline for returns that a kretprobe has diverted. It is in the kernel image, because a return
 * may follow the unloading of the engine.
 *
 * The trampoline's address replaces the return address that "ret" has taken, and is itself replaced
 * by the original one later. Until then it tells the unwinder to ask rethook_find_ret_addr() for
 * the caller. struct pt_regs is built below it.
 */
#include <linux/linkage.h>
#include <linux/objtool.h>
#include <asm/asm-offsets.h>
#include <asm/nospec-branch.h>
#include <asm/segment.h>
#include <asm/unwind_hints.h>

#include "regs.inc"

	.section .kprobes.text, "ax"

SYM_CODE_START(arch_rethook_trampoline)
	ANNOTATE_NOENDBR
	UNWIND_HINT_UNDEFINED
	pushq	$arch_rethook_trampoline
	UNWIND_HINT_FUNC
	pushq	$__KERNEL_DS
	/* ferro_returned() fills in the stack pointer. */
	pushq	$0
	pushfq
	pushq	$__KERNEL_CS
	pushq	$0
	pushq	$-1
	SAVE_GENERAL_REGS
	movq	%rsp, %rdi
	call	ferro_returned
	RESTORE_GENERAL_REGS
	addq	$24, %rsp
	popfq
	leaq	16(%rsp), %rsp
	RET
SYM_CODE_END(arch_rethook_trampoline)
