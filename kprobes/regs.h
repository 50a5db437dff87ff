/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The part of struct pt_regs below orig_ax, for assembly that makes one on the stack.
 */
#ifndef _FERROTRACE_KPROBES_REGS_H
#define _FERROTRACE_KPROBES_REGS_H

.macro SAVE_GENERAL_REGS
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
.endm

.macro RESTORE_GENERAL_REGS
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
.endm

#endif /* _FERROTRACE_KPROBES_REGS_H */
