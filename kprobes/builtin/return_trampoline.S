/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Where functions return to when a kretprobe has diverted their return. It is in the kernel image, since they may still do
 * that when the engine has gone.
 *
 * A word in the place of the return address that "ret" has taken gets the real one. Until then it tells the unwinder,
 * which asks rethook_find_ret_addr() what is after it. Below it struct pt_regs is made.
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
	/* ferro_returned() knows the stack pointer. */
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
