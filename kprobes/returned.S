/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Where functions return to when a kretprobe has diverted their return. It is in the kernel image, since they may still do
 * that when the engine has gone.
 *
 * A word in the place of the return address that "ret" has taken gets the real one. Until then it tells the unwinder, which asks
 * rethook_find_ret_addr() what is behind it. Below it struct pt_regs is made.
 */
#include <linux/linkage.h>
#include <linux/objtool.h>
#include <asm/asm-offsets.h>
#include <asm/nospec-branch.h>
#include <asm/segment.h>
#include <asm/unwind_hints.h>

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
	pushq	%rdi
	pushq	%rsi
	pushq	%rdx
	pushq	%rcx
	pushq	%rax
	pushq	%r8
	pushq	%r9
	pushq	%r10
	pushq	%r11
	pushq	%rbx
	pushq	%rbp
	pushq	%r12
	pushq	%r13
	pushq	%r14
	pushq	%r15
	movq	%rsp, %rdi
	call	ferro_returned
	popq	%r15
	popq	%r14
	popq	%r13
	popq	%r12
	popq	%rbp
	popq	%rbx
	popq	%r11
	popq	%r10
	popq	%r9
	popq	%r8
	popq	%rax
	popq	%rcx
	popq	%rdx
	popq	%rsi
	popq	%rdi
	addq	$24, %rsp
	popfq
	leaq	16(%rsp), %rsp
	RET
SYM_CODE_END(arch_rethook_trampoline)
