/* SPDX-License-Identifier: GPL-2.0 */
/*
 * How an instruction is executed within the trap, on the registers that the trap has saved: ferro_core::insn::write_apart() has made
 * the code that does it.
 */
#include <linux/linkage.h>
#include <linux/objtool.h>
#include <asm/nospec-branch.h>
#include <asm/unwind_hints.h>

	.section .kprobes.text, "ax"

/* Gets struct pt_regs and the code. Returns 0 if it has executed the instruction. */
SYM_CODE_START(ferro_kprobe_apart)
	ANNOTATE_NOENDBR
	UNWIND_HINT_UNDEFINED
	pushq	%rbx
	pushq	%rbp
	pushq	%r12
	pushq	%r13
	pushq	%r14
	pushq	%r15
	JMP_NOSPEC rsi
SYM_CODE_END(ferro_kprobe_apart)

/* Where that code goes. */
SYM_CODE_START(ferro_kprobe_apart_done)
	/* Its address is taken for the distance of direct jumps. */
	ANNOTATE_NOENDBR
	UNWIND_HINT_UNDEFINED
	popq	%r15
	popq	%r14
	popq	%r13
	popq	%r12
	popq	%rbp
	popq	%rbx
	RET
SYM_CODE_END(ferro_kprobe_apart_done)
