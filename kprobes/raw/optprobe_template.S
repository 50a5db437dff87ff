/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The code that detours call, in the place of a breakpoint: detour.rs writes detours, and
 * optimize.rs places the jumps to them.
 *
 * A detour has made struct pt_regs, which is above the return address, and has the address of the
 * point in rbx. It restores all registers from struct pt_regs afterwards. The unwinder finds the
 * probed function and its callers by that.
 *
 * The usual hit is handled here: RCU watches, no handler runs on this CPU, and there is one probe.
 * A point with several probes, or with a disabled one, has ferro_kprobe_walk in the place of its
 * probe, whose handlers call those of all.
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

/* Turns preemption on, and reschedules if that is due. */
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
 * Resumes at a breakpoint if RCU does not watch. "watched" is the entry for detours in code where
 * RCU always watches: see detour.rs.
 */
.macro check_rcu watched:req
#ifdef CONFIG_CONTEXT_TRACKING_IDLE
	testb	$FERRO_RCU_WATCHING, PER_CPU_VAR(context_tracking + FERRO_CONTEXT_STATE)
	jz	ferro_kprobe_detour_unwatched
#endif
SYM_INNER_LABEL(\watched, SYM_L_GLOBAL)
	ANNOTATE_NOENDBR
.endm

/*
 * Calls the handler at this offset in the probe whose address is in rdi. Jumps to "none" if the
 * client has set it to NULL since.
 */
.macro call_handler offset:req none:req
	movq	\offset(%rdi), %r11
	testq	%r11, %r11
	jz	\none
	CALL_NOSPEC r11
.endm

/*
 * Calls the pre-handler of the probe at this offset in the point. Afterwards preemption is off, and
 * the probe is the running one.
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

/* For probes without a post-handler. */
SYM_CODE_START(ferro_kprobe_detour)
	/* Its address, like the others here, is taken for the distance of direct calls. */
	ANNOTATE_NOENDBR
	UNWIND_HINT_REGS offset=8
	check_rcu ferro_kprobe_detour_watched
	call_pre FERRO_POINT_SINGLE
	movq	$0, PER_CPU_VAR(current_kprobe)
	preempt_on
	RET
SYM_CODE_END(ferro_kprobe_detour)

/*
 * For probes with a post-handler: the detour executes the first instruction when this has returned,
 * and calls the next function.
 */
SYM_CODE_START(ferro_kprobe_detour_around)
	ANNOTATE_NOENDBR
	UNWIND_HINT_REGS offset=8
	check_rcu ferro_kprobe_detour_around_watched
	call_pre FERRO_POINT_SINGLE_POST
	RET
SYM_CODE_END(ferro_kprobe_detour_around)

/* Calls the post-handler, on the same CPU, of the same probe. */
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

/* For instructions that are executed on the registers, which tell where to resume. */
SYM_CODE_START(ferro_kprobe_detour_instead)
	ANNOTATE_NOENDBR
	UNWIND_HINT_REGS offset=8
	check_rcu ferro_kprobe_detour_instead_watched
	tell	ferro_kprobe_detoured
	jmp	ferro_kprobe_detour_away
SYM_CODE_END(ferro_kprobe_detour_instead)

/*
 * Targets of the jumps above. Each is a symbol of its own, which is entered only at its start:
 * insn.rst says why that matters.
 */
SYM_CODE_START_LOCAL(ferro_kprobe_detour_unwatched)
	UNWIND_HINT_REGS offset=8
	/* The entry of breakpoints makes RCU watch. */
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
 * Resumes with the registers. The stack pointer may have changed, and a handler may have pushed
 * into the gap that detours leave free. So the registers are moved out of the way, and the address
 * to resume at is stored below the new stack pointer. Nothing may be stored between the two, and an
 * interrupt may arrive anywhere: if the new stack pointer is further down, the registers are moved
 * below that.
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

/* Handlers of struct kprobe that get the point instead of it: call_pre leaves it in rbx. */
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

/* Gets the return address of the detour's call: rbx may be a register of the first instruction. */
SYM_FUNC_START(ferro_kprobe_walk_after)
	ENDBR
	movq	8(%rsp), %rdi
	jmp	ferro_kprobe_call_after
SYM_FUNC_END(ferro_kprobe_walk_after)
