/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Functions with one instruction at label bench_NAME_at that is probed; and many that are alike.
 */
#include <linux/linkage.h>
#include "bench.h"

.macro PLACE name:req, insn:req
SYM_FUNC_START(bench_\name)
	xor	%eax, %eax
	\insn
1:	RET
SYM_FUNC_END(bench_\name)
.endm

	PLACE mov	"mov %rdi, %rax"
	PLACE add	"add %rdi, %rax"
	PLACE lea_rip	"lea bench_many(%rip), %rax"
	PLACE load	"mov (%rsp), %rax"
	PLACE nop	"nop"
	PLACE test	"test %rdi, %rdi"
	PLACE imul	"imul %rdi, %rax"
	PLACE jmp	"jmp 1f"

/* The same with room for a jump. */
.macro ROOM name:req, insn:req, last="add %rdx, %rax"
SYM_FUNC_START(bench_jump_\name)
	xor	%eax, %eax
	\insn
	mov	$1, %edx
	\last
1:	RET
SYM_FUNC_END(bench_jump_\name)
.endm

	ROOM mov	"mov %rdi, %rax"
	ROOM add	"add %rdi, %rax"
	ROOM load	"mov (%rsp), %rax"
	ROOM push	"push %rdi", last="pop %rax"
	ROOM je	"je 1f"
	ROOM imul	"imul %rdi, %rax"
	ROOM jmp	"jmp 1f"

.macro ONE_OF_MANY number
	.balign MANY_SIZE
	.type	bench_many_\number, @function
bench_many_\number:
	lea	3(%rdi), %rax
	mov	%rdi, %rdx
	add	$\number, %rax
	RET
	.size	bench_many_\number, . - bench_many_\number
.endm

	.balign MANY_SIZE
	.globl	bench_many
bench_many:
	.set	.Lnumber, 0
	.altmacro
.rept MANY
	ONE_OF_MANY %.Lnumber
	.set	.Lnumber, .Lnumber + 1
.endr
	.noaltmacro
