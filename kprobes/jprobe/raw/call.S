/* SPDX-License-Identifier: GPL-2.0 */
/* Calls a jprobe's handler with the arguments of the probed function. */
#include <linux/linkage.h>
#include <asm/nospec-branch.h>
#include <asm/ptrace-abi.h>
#include <asm/unwind_hints.h>

#include "frame.h"

	.section .kprobes.text, "ax"

/* Pops the registers that ferro_jprobe_call() has pushed first, and returns from it. */
.macro leave_call
	popq	%r15
	popq	%r14
	popq	%r13
	popq	%r12
	popq	%rbx
	popq	%rbp
	RET
.endm

/* void ferro_jprobe_call(struct pt_regs *regs, void *handler, struct ferro_jprobe_frame *frame) */
SYM_FUNC_START(ferro_jprobe_call)
	pushq	%rbp
	movq	%rsp, %rbp
	pushq	%rbx
	pushq	%r12
	pushq	%r13
	pushq	%r14
	pushq	%r15
	movq	%rsp, FERRO_JPROBE_SP(%rdx)
	pushq	FERRO_JPROBE_STACK+56(%rdx)
	pushq	FERRO_JPROBE_STACK+48(%rdx)
	pushq	FERRO_JPROBE_STACK+40(%rdx)
	pushq	FERRO_JPROBE_STACK+32(%rdx)
	pushq	FERRO_JPROBE_STACK+24(%rdx)
	pushq	FERRO_JPROBE_STACK+16(%rdx)
	pushq	FERRO_JPROBE_STACK+8(%rdx)
	pushq	FERRO_JPROBE_STACK(%rdx)
	movq	%rsi, %r11
	movq	RAX(%rdi), %rax
	movq	RSI(%rdi), %rsi
	movq	RDX(%rdi), %rdx
	movq	RCX(%rdi), %rcx
	movq	R8(%rdi), %r8
	movq	R9(%rdi), %r9
	movq	RDI(%rdi), %rdi
	CALL_NOSPEC r11
	addq	$64, %rsp
	leave_call
SYM_FUNC_END(ferro_jprobe_call)

/* void jprobe_return(void): returns as if the handler had returned. */
SYM_CODE_START(jprobe_return)
	UNWIND_HINT_FUNC
	ENDBR
	movq	%rsp, %rdi
	call	ferro_jprobe_unwind
	testq	%rax, %rax
	jz	.Loutside
	movq	FERRO_JPROBE_SP(%rax), %rax
	movq	40(%rax), %rbp
	movq	%rax, %rsp
	/* five registers, rbp, and the return address */
	UNWIND_HINT sp_reg=ORC_REG_SP sp_offset=56 type=UNWIND_HINT_TYPE_CALL
	leave_call
.Loutside:
	UNWIND_HINT_FUNC
	RET
SYM_CODE_END(jprobe_return)
