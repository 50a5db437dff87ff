/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Executes an instruction within the trap, on the registers that the trap has saved.
 * ferro_kprobes_core::write_apart() has generated the code that does it.
 */
#include <linux/linkage.h>
#include <linux/objtool.h>
#include <asm/nospec-branch.h>
#include <asm/unwind_hints.h>

	.section .kprobes.text, "ax"

/* Gets struct pt_regs and the code. Returns 0 if the code has executed the instruction. */
SYM_CODE_START(ferro_kprobe_insn_stub)
	ANNOTATE_NOENDBR
	UNWIND_HINT_UNDEFINED
	pushq	%rbx
	pushq	%rbp
	pushq	%r12
	pushq	%r13
	pushq	%r14
	pushq	%r15
	JMP_NOSPEC rsi
SYM_CODE_END(ferro_kprobe_insn_stub)

/* The code ends with a jump here. */
SYM_CODE_START(ferro_kprobe_insn_stub_done)
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
SYM_CODE_END(ferro_kprobe_insn_stub_done)
