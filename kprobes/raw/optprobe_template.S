/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What detours call, which stand in for a breakpoint: detour.rs writes detours, and jump.rs has jumps go there.
 *
 * A detour has made struct pt_regs, which is above the return address, and has the address of the point in rbx. It takes all
 * registers from struct pt_regs afterwards. The unwinder finds the probed function and its callers by that.
 *
 * The usual hit is all here: RCU watches, no handler runs on this CPU, and there is one probe. A point with several, or with
 * one that is disabled, has ferro_kprobe_walk in the place of its probe, whose handlers call those of all.
 */
#include <linux/linkage.h>
#include <linux/objtool.h>
#include <asm/nospec-branch.h>
#include <asm/percpu.h>
#include <asm/unwind_hints.h>

#include "../builtin/regs.inc"
#include "detour.h"

#ifdef CONFIG_HAS_SEPARATE_PREEMPT_RESCHED_BITS
#define COUNT(op) op##q
#else
#define COUNT(op) op##l
#endif

.macro preempt_off
#ifdef CONFIG_PREEMPT_COUNT
	COUNT(inc) PER_CPU_VAR(__preempt_count)
#endif
.endm

/* Preemption is on again; somebody may have waited for the CPU. */
.macro preempt_on
#ifdef CONFIG_PREEMPT_COUNT
	COUNT(dec) PER_CPU_VAR(__preempt_count)
#ifdef CONFIG_PREEMPTION
	jnz	.Lstays_\@
	call	ferro_preempt_schedule
.Lstays_\@:
#endif
#endif
.endm

/*
 * Goes on at a breakpoint if RCU does not watch, and otherwise at "watched", where detours call in whose code it always does:
 * see detour.rs.
 */
.macro check_rcu watched:req
#ifdef CONFIG_CONTEXT_TRACKING_IDLE
	testb	$FERRO_RCU_WATCHING, PER_CPU_VAR(context_tracking + FERRO_CONTEXT_STATE)
	jz	ferro_kprobe_detour_unwatched
#endif
SYM_INNER_LABEL(\watched, SYM_L_GLOBAL)
	ANNOTATE_NOENDBR
.endm

/* Calls the handler at this offset in the probe whose address is in rdi. Goes to "none" if the client has set it to NULL since. */
.macro call_handler offset:req none:req
	movq	\offset(%rdi), %r11
	testq	%r11, %r11
	jz	\none
	CALL_NOSPEC r11
.endm

/*
 * Calls the handler before the instruction of the probe at this offset in the point. Preemption is off afterwards, and the probe
 * is the one that runs.
 */
.macro call_pre offset:req
	preempt_off
	cmpq	$0, PER_CPU_VAR(current_kprobe)
	jne	ferro_kprobe_detour_missed
	movq	\offset(%rbx), %rdi
	movq	%rdi, PER_CPU_VAR(current_kprobe)
	leaq	8(%rsp), %rsi
	call_handler FERRO_KPROBE_PRE .Lnone_\@
	testl	%eax, %eax
	jnz	ferro_kprobe_detour_diverted
.Lnone_\@:
.endm

/* Calls a function of exports.rs with the point and struct pt_regs. */
.macro tell function:req
	movq	%rbx, %rdi
	leaq	8(%rsp), %rsi
	call	\function
.endm

	.section .kprobes.text, "ax"

/* For probes without a handler after the instruction. */
SYM_CODE_START(ferro_kprobe_detour)
	/* Its address, as that of the others here, is taken for the distance of direct calls. */
	ANNOTATE_NOENDBR
	UNWIND_HINT_REGS offset=8
	check_rcu ferro_kprobe_detour_watched
	call_pre FERRO_POINT_BEFORE
	movq	$0, PER_CPU_VAR(current_kprobe)
	preempt_on
	RET
SYM_CODE_END(ferro_kprobe_detour)

/* For others: the detour executes the first instruction when this has returned, and calls the next. */
SYM_CODE_START(ferro_kprobe_detour_around)
	ANNOTATE_NOENDBR
	UNWIND_HINT_REGS offset=8
	check_rcu ferro_kprobe_detour_around_watched
	call_pre FERRO_POINT_AROUND
	RET
SYM_CODE_END(ferro_kprobe_detour_around)

/* The same CPU, the same probe. */
SYM_CODE_START(ferro_kprobe_detour_after)
	ANNOTATE_NOENDBR
	UNWIND_HINT_REGS offset=8
	movq	PER_CPU_VAR(current_kprobe), %rdi
	leaq	8(%rsp), %rsi
	xorl	%edx, %edx
	call_handler FERRO_KPROBE_POST .Lnone
.Lnone:
	movq	$0, PER_CPU_VAR(current_kprobe)
	preempt_on
	RET
SYM_CODE_END(ferro_kprobe_detour_after)

/* For others: the first instruction is executed on the registers, which say where to go on. */
SYM_CODE_START(ferro_kprobe_detour_instead)
	ANNOTATE_NOENDBR
	UNWIND_HINT_REGS offset=8
	check_rcu ferro_kprobe_detour_instead_watched
	tell	ferro_kprobe_detoured
	jmp	ferro_kprobe_detour_away
SYM_CODE_END(ferro_kprobe_detour_instead)

/* Where those above go by jumps. Each is a symbol of its own, which nobody enters but at its start: insn.rst says why that matters. */
SYM_CODE_START_LOCAL(ferro_kprobe_detour_unwatched)
	UNWIND_HINT_REGS offset=8
	/* What happens at a breakpoint makes it watch. */
	tell	ferro_kprobe_unwatched
	jmp	ferro_kprobe_detour_away
SYM_CODE_END(ferro_kprobe_detour_unwatched)

SYM_CODE_START_LOCAL(ferro_kprobe_detour_missed)
	UNWIND_HINT_REGS offset=8
	tell	ferro_kprobe_missed
	preempt_on
	jmp	ferro_kprobe_detour_away
SYM_CODE_END(ferro_kprobe_detour_missed)

SYM_CODE_START_LOCAL(ferro_kprobe_detour_diverted)
	UNWIND_HINT_REGS offset=8
	movq	$0, PER_CPU_VAR(current_kprobe)
	tell	ferro_kprobe_diverted
	preempt_on
	jmp	ferro_kprobe_detour_away
SYM_CODE_END(ferro_kprobe_detour_diverted)

/*
 * Goes on with the registers, wherever they say. The stack pointer may be another, and what a handler has pushed may be in what
 * detours leave free: the registers are moved out of the way, and where it goes on is put below its stack pointer. Nothing may
 * come between, and an interrupt may come anywhere: where the new stack pointer is further down, they are moved below that.
 */
SYM_CODE_START_LOCAL(ferro_kprobe_detour_away)
	UNWIND_HINT_UNDEFINED
	leaq	8(%rsp), %rsi
	movq	19*8(%rsi), %rax
	leaq	-FERRO_DETOUR_AWAY(%rsi), %rsp
	leaq	-21*8(%rax), %rax
	cmpq	%rax, %rsp
	cmova	%rax, %rsp
	movq	%rsp, %rdi
	movl	$20, %ecx
	rep movsq
	movq	19*8(%rsp), %rax
	movq	16*8(%rsp), %rdx
	leaq	-8(%rax), %rax
	movq	%rdx, (%rax)
	movq	%rax, 19*8(%rsp)
	RESTORE_GENERAL_REGS
	leaq	3*8(%rsp), %rsp
	popfq
	popq	%rsp
	UNWIND_HINT_FUNC
	RET
SYM_CODE_END(ferro_kprobe_detour_away)

/* Handlers of struct kprobe that get the point in place of that: call_pre leaves it in rbx. */
SYM_FUNC_START(ferro_kprobe_walk_before)
	ENDBR
	movq	%rbx, %rdi
	jmp	ferro_kprobe_call_before
SYM_FUNC_END(ferro_kprobe_walk_before)

SYM_FUNC_START(ferro_kprobe_walk_around)
	ENDBR
	movq	%rbx, %rdi
	jmp	ferro_kprobe_call_around
SYM_FUNC_END(ferro_kprobe_walk_around)

/* This one gets the address to which the detour's call returns: rbx may be a register of the first instruction. */
SYM_FUNC_START(ferro_kprobe_walk_after)
	ENDBR
	movq	8(%rsp), %rdi
	jmp	ferro_kprobe_call_after
SYM_FUNC_END(ferro_kprobe_walk_after)
