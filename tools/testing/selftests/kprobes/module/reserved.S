/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Functions with the names of code that must not be probed. They are never called. They have a file
 * of their own so that no other code of the module takes them for the real ones.
 */
#include <linux/linkage.h>

.macro RESERVED name
	.text
	.balign	16, 0x90
	.type	\name, @function
\name:
	nop
	mov	%rdi, %rax
	ret
	int3
	.size	\name, . - \name
	.section .rodata
	.quad	\name
.endm

	.section .rodata
	.balign	8
	.globl	kst_reserved
kst_reserved:
	/* Mitigations: of indirect branches, of returns, and code that entries run through. */
	RESERVED __x86_indirect_thunk_rax
	RESERVED __x86_indirect_call_thunk_rax
	RESERVED __x86_indirect_jump_thunk_rax
	RESERVED __x86_indirect_its_thunk_rax
	RESERVED __x86_indirect_paranoid_thunk_rax
	RESERVED __x86_return_thunk
	RESERVED __pi___x86_return_thunk
	RESERVED retbleed_return_thunk
	RESERVED retbleed_untrain_ret
	RESERVED srso_return_thunk
	RESERVED srso_safe_ret
	RESERVED srso_untrain_ret
	RESERVED srso_alias_return_thunk
	RESERVED srso_alias_safe_ret
	RESERVED srso_alias_untrain_ret
	RESERVED entry_untrain_ret
	RESERVED call_depth_return_thunk
	RESERVED its_return_thunk
	RESERVED warn_thunk_thunk
	/* A trampoline of a static call. */
	RESERVED __SCT__kst_reserved
	/* Made into trampolines, and patched. */
	RESERVED ftrace_caller
	RESERVED ftrace_regs_caller
	/* Calls of instrumented code. */
	RESERVED __asan_load8
	RESERVED __asan_report_load8_noabort
	RESERVED __kasan_check_write
	RESERVED __tsan_read8
	RESERVED __msan_warning
	RESERVED __sanitizer_cov_trace_pc
	.section .rodata
	.quad	0
	.size	kst_reserved, . - kst_reserved
