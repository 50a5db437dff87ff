/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Functions with a probed instruction, and room for a jump there: struct kst_pair NAME(long a, long
 * b).
 */
#include <linux/linkage.h>
#include <asm/nospec-branch.h>

#include "jump_around.h"

	.section .rodata, "a"
	.balign	8
SYM_DATA_START(kst_around)
	.text

/* "first" and "last" leave the flags alone that the function returns: those after the instruction. It is done with at "next". */
.macro PLACE name:req, insn:req, first="", last=""
SYM_FUNC_START(kst_around_\name)
	movq	%rdi, %rax
	movq	%rsi, %rcx
	xorl	%edx, %edx
	\first
.Lat_\name:
	\insn
.Lnext_\name:
	.byte	0x0f, 0x1f, 0x44, 0x00, 0x00
	\last
	pushfq
	popq	%rdx
	RET
SYM_FUNC_END(kst_around_\name)
	.pushsection .rodata
	.quad	kst_around_\name, .Lat_\name, .Lnext_\name, .Lstring_\name
	.popsection
	.pushsection .rodata.str1.1, "aMS", @progbits, 1
.Lstring_\name:
	.asciz	"\insn"
	.popsection
.endm

	PLACE mov	"movq %rcx, %rax"
	PLACE mov32	"movl %ecx, %eax"
	PLACE mov16	"movw %cx, %ax"
	PLACE mov8	"movb %cl, %ah"
	PLACE sil	"movb %sil, %al"
	PLACE movi	"movabsq $0x1122334455667788, %rax"
	PLACE lea	"leaq 3(%rax,%rcx,4), %rax"
	PLACE lea_rip	"leaq kst_around(%rip), %rax"
	PLACE lea_sp	"leaq 16(%rsp), %rdx", last="movq %rsp, %rax; notq %rax; leaq 1(%rax,%rdx), %rax"
	PLACE load	"movq (%rsp), %rax", first="pushq %rcx", last="leaq 8(%rsp), %rsp"
	PLACE load_index	"movzbl 1(%rsp,%rdx), %eax", first="pushq %rcx", last="leaq 8(%rsp), %rsp"
	PLACE store	"movq %rcx, (%rsp)", first="pushq %rax", last="popq %rax"
	PLACE storei	"movw $0x1234, 2(%rsp)", first="pushq %rax", last="popq %rax"
	PLACE add	"addq %rcx, %rax"
	PLACE add_store	"addq %rcx, (%rsp)", first="pushq %rax", last="popq %rax"
	PLACE sub32	"subl %ecx, %eax"
	PLACE adc	"adcq %rcx, %rax", first="stc"
	PLACE sbb8	"sbbb %cl, %al", first="stc"
	PLACE cmp	"cmpq %rcx, %rax"
	PLACE testi	"testb $5, %al"
	PLACE inc	"incl %eax", first="stc"
	PLACE neg	"negq %rax"
	PLACE not	"notl %eax"
	PLACE shl	"shlq %cl, %rax"
	PLACE sar	"sarl $3, %eax"
	PLACE rcl	"rclq $1, %rax", first="stc"
	PLACE imul	"imulq %rcx, %rax"
	PLACE imuli	"imull $100, %ecx, %eax"
	PLACE mul	"mulq %rcx", last="xorq %rdx, %rax"
	PLACE xchg	"xchgq %rax, %rcx", last="leaq (%rax,%rcx,2), %rax"
	PLACE xadd	"xaddq %rax, %rcx", last="leaq (%rax,%rcx,2), %rax"
	PLACE bswap	"bswapl %eax"
	PLACE bt	"btq %rcx, %rax"
	PLACE cqo	"cqto", last="leaq (%rax,%rdx,2), %rax"
	PLACE cwde	"cwtl"
	PLACE movsx	"movsbq %cl, %rax"
	PLACE movsxd	"movslq %ecx, %rax"
	PLACE cmov	"cmovlq %rcx, %rax", first="cmpq %rcx, %rax"
	PLACE setcc	"setl %al", first="cmpq %rcx, %rax"
	PLACE lahf	"lahf", first="cmpq %rcx, %rax"
	PLACE stc	"stc"
	PLACE popcnt	"popcntq %rcx, %rax"
	PLACE nop	"nopw 0(%rax)"
	PLACE string	"stosl", first="pushq %rdi; leaq (%rsp), %rdi; cld", last="popq %rax"
	PLACE push	"pushq %rcx", last="popq %rax"
	PLACE push_r9	"pushq %r9", first="movq %rcx, %r9", last="popq %rax"
	PLACE pop	"popq %rax", first="pushq %rcx"
	PLACE pop_r9	"popq %r9", first="pushq %rcx", last="movq %r9, %rax"
	PLACE pushi	"pushq $0x1234", last="popq %rax"
	PLACE pushi8	"pushq $-2", last="popq %rax"
	/* These are executed on the registers. */
	PLACE jmp	"jmp .Llast_jmp", last="movl $7, %eax; .Llast_jmp:"
	PLACE je	"je .Llast_je", first="cmpq %rcx, %rax", last="movl $7, %eax; .Llast_je:"
	PLACE call	"call .Lcalled", last=""
	PLACE pushf	"pushfq", first="cmpq %rcx, %rax", last="popq %rax"
	/*
	 * A frame that ends where a detour saves its registers (return address, rcx, rax); and one
	 * that ends far below.
	 */
	PLACE frame_568	"leaq -568(%rsp), %rsp", last="leaq 568(%rsp), %rsp"
	PLACE frame_632	"leaq -632(%rsp), %rsp", last="leaq 632(%rsp), %rsp; leaq (%rax,%rcx,2), %rax"
	PLACE frame_640	"leaq -640(%rsp), %rsp", last="leaq 640(%rsp), %rsp"
	PLACE frame_2048 "leaq -2048(%rsp), %rsp", last="leaq 2048(%rsp), %rsp"
	.section .rodata
SYM_DATA_END(kst_around)
SYM_DATA(kst_around_end, .quad 0)

	.text
SYM_FUNC_START_LOCAL(kst_around_called)
.Lcalled:
	leaq	7(%rcx), %rax
	RET
SYM_FUNC_END(kst_around_called)
