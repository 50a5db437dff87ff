/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Functions for jprobe.c that C cannot say. objtool does not look at this file.
 */
#include <linux/linkage.h>
#include <linux/objtool.h>
#include "jprobe_calls.h"

/* A function without an ftrace site: stores the registers at its call, and returns. */
SYM_FUNC_START(kst_store)
	pushfq
	movq	%rbx, KST_RBX+kst_jprobe_seen(%rip)
	movq	%rbp, KST_RBP+kst_jprobe_seen(%rip)
	movq	%r12, KST_R12+kst_jprobe_seen(%rip)
	movq	%r13, KST_R13+kst_jprobe_seen(%rip)
	movq	%r14, KST_R14+kst_jprobe_seen(%rip)
	movq	%r15, KST_R15+kst_jprobe_seen(%rip)
	popq	KST_RFLAGS+kst_jprobe_seen(%rip)
	movq	%rax, KST_RAX+kst_jprobe_seen(%rip)
	movq	%r10, KST_R10+kst_jprobe_seen(%rip)
	movq	%r11, KST_R11+kst_jprobe_seen(%rip)
	RET
SYM_FUNC_END(kst_store)

/* void kst_call_in(const struct kst_state *in, struct kst_state *out, void *function) */
SYM_FUNC_START(kst_call_in)
	pushq	%rbx
	pushq	%rbp
	pushq	%r12
	pushq	%r13
	pushq	%r14
	pushq	%r15
	pushq	%rsi
	movq	KST_RBX(%rdi), %rbx
	movq	KST_RBP(%rdi), %rbp
	movq	KST_R12(%rdi), %r12
	movq	KST_R13(%rdi), %r13
	movq	KST_R14(%rdi), %r14
	movq	KST_R15(%rdi), %r15
	movq	KST_RAX(%rdi), %rax
	movq	KST_R10(%rdi), %r10
	movq	KST_R11(%rdi), %r11
	pushq	KST_RFLAGS(%rdi)
	popfq
	call	*%rdx
	pushfq
	popq	%rcx
	popq	%rsi
	movq	%rcx, KST_RFLAGS(%rsi)
	movq	%rbx, KST_RBX(%rsi)
	movq	%rbp, KST_RBP(%rsi)
	movq	%r12, KST_R12(%rsi)
	movq	%r13, KST_R13(%rsi)
	movq	%r14, KST_R14(%rsi)
	movq	%r15, KST_R15(%rsi)
	popq	%r15
	popq	%r14
	popq	%r13
	popq	%r12
	popq	%rbp
	popq	%rbx
	cld
	RET
SYM_FUNC_END(kst_call_in)
	STACK_FRAME_NON_STANDARD kst_call_in

/*
 * void kst_call_on(void *sp, void *function): calls it with this stack pointer; its return address
 * is stored below.
 */
SYM_FUNC_START(kst_call_on)
	pushq	%rbp
	movq	%rsp, %rbp
	movq	%rdi, %rsp
	call	*%rsi
	movq	%rbp, %rsp
	popq	%rbp
	RET
SYM_FUNC_END(kst_call_on)
