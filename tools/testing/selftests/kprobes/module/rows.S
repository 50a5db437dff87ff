/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Rows: functions with one instruction that is probed, each called by kst_call() in many states.
 * RSI, RDI and R14 point to memory, RBP into the stack, R15 is 3; the other registers have any
 * value.
 *
 *	ROW name "instruction" "before" "after" flags
 *
 * A row ends at kst_exit_0, or at label 2, which jumps to kst_exit_1.
 */
#include <linux/linkage.h>
#include <linux/objtool.h>
#include <asm/asm.h>
#include <asm/percpu.h>
#include "rows.h"

	.bss
	.balign 8
saved_sp:	.quad 0
out_regs:	.quad 0
target:		.quad 0
tmp:		.quad 0
	.globl kst_way
kst_way:	.byte 0

	.text
SYM_FUNC_START(kst_call)
	push	%rbx
	push	%rbp
	push	%r12
	push	%r13
	push	%r14
	push	%r15
	pushfq
	mov	%rsp, saved_sp(%rip)
	mov	%rsi, out_regs(%rip)
	mov	%rdx, target(%rip)
	mov	KST_SP(%rdi), %rsp
	pushq	KST_FLAGS(%rdi)
	popfq
	mov	0(%rdi), %rax
	mov	8(%rdi), %rcx
	mov	16(%rdi), %rdx
	mov	24(%rdi), %rbx
	mov	40(%rdi), %rbp
	mov	48(%rdi), %rsi
	mov	64(%rdi), %r8
	mov	72(%rdi), %r9
	mov	80(%rdi), %r10
	mov	88(%rdi), %r11
	mov	96(%rdi), %r12
	mov	104(%rdi), %r13
	mov	112(%rdi), %r14
	mov	120(%rdi), %r15
	mov	56(%rdi), %rdi
	jmp	*target(%rip)

SYM_INNER_LABEL(kst_exit_1, SYM_L_GLOBAL)
	movb	$1, kst_way(%rip)
	jmp	1f
SYM_INNER_LABEL(kst_exit_0, SYM_L_GLOBAL)
	movb	$0, kst_way(%rip)
	/* Until the flags are saved, only instructions that leave them alone. */
1:	mov	%rax, tmp(%rip)
	mov	out_regs(%rip), %rax
	mov	%rcx, 8(%rax)
	mov	%rdx, 16(%rax)
	mov	%rbx, 24(%rax)
	mov	%rsp, 32(%rax)
	mov	%rbp, 40(%rax)
	mov	%rsi, 48(%rax)
	mov	%rdi, 56(%rax)
	mov	%r8, 64(%rax)
	mov	%r9, 72(%rax)
	mov	%r10, 80(%rax)
	mov	%r11, 88(%rax)
	mov	%r12, 96(%rax)
	mov	%r13, 104(%rax)
	mov	%r14, 112(%rax)
	mov	%r15, 120(%rax)
	mov	tmp(%rip), %rcx
	mov	%rcx, 0(%rax)
	mov	saved_sp(%rip), %rsp
	pushfq
	popq	KST_FLAGS(%rax)
	cld
	popfq
	pop	%r15
	pop	%r14
	pop	%r13
	pop	%r12
	pop	%rbp
	pop	%rbx
	RET
SYM_FUNC_END(kst_call)
	STACK_FRAME_NON_STANDARD kst_call

/* A fault at @from resumes at label 2. */
.macro REPAIRED from
	_ASM_EXTABLE(\from, 2f)
.endm

.macro ROW name:req, insn:req, before, after, flags=0
	.text
	.balign	16
	.type	kst_row_\name, @function
kst_row_\name:
	nop
	\before
.Lat_\name:
	\insn
.Lend_\name:
	\after
	jmp	kst_exit_0
2:	jmp	kst_exit_1
	.size	kst_row_\name, . - kst_row_\name
	/* for objtool over the whole module, which KLP_BUILD and IBT ask for */
	STACK_FRAME_NON_STANDARD kst_row_\name

	.section .rodata.str1.1, "aMS", @progbits, 1
.Lname_\name:
	.asciz	"\name"
	.section .rodata.kst_rows, "a", @progbits
	.quad	.Lname_\name, kst_row_\name, .Lat_\name, .Lend_\name
	.set	.Lflags_\name, \flags
	.ifb	\before
	.set	.Lflags_\name, .Lflags_\name | KST_BARE
	.endif
	.ifb	\after
	.set	.Lflags_\name, .Lflags_\name | KST_STRAIGHT
	.endif
	.quad	.Lflags_\name
	.text
.endm

	.section .rodata.kst_rows, "a", @progbits
	.balign	8
	.globl	kst_rows
kst_rows:

	/* moves */
	ROW mov_reg		"mov %rcx, %rax"
	ROW mov_reg32		"mov %ecx, %r10d"
	ROW mov_reg8		"mov %ch, %al"
	ROW mov_imm		"mov $0x12345678, %eax"
	ROW mov_imm64		"movabs $0x123456789abcdef0, %r9"
	ROW mov_load		"mov 0x20(%rsi), %rax"
	ROW mov_load_sib	"mov 0x20(%rsi,%r15,8), %r11"
	ROW mov_load16		"mov 0x20(%rsi), %cx"
	ROW mov_store		"mov %rax, 0x28(%rdi)"
	ROW mov_store8		"mov %al, 0x281(%r14)"
	ROW mov_store_imm	"movl $0x1234, 0x30(%rdi)"
	ROW mov_rip_load	"mov kst_mem+0x40(%rip), %rbx"
	ROW mov_rip_store	"mov %rbx, kst_mem+0x48(%rip)"
	ROW mov_rip_store_imm	"movl $0x77, kst_mem+0x50(%rip)"
	ROW mov_rip_store_imm8	"movb $0x77, kst_mem+0x53(%rip)"
	ROW mov_rip_load8	"mov kst_mem+0x51(%rip), %dl"
	ROW mov_stack_load	"mov 0x10(%rsp), %rax"
	ROW mov_stack_store	"mov %rax, 0x18(%rsp)"
	ROW mov_from_sp		"mov %rsp, %rax"
	ROW mov_cs		"mov %cs, %eax"
	ROW mov_cr3		"mov %cr3, %rax" "" "" KST_NO_AX
	ROW movzx		"movzbl %ch, %eax"
	ROW movzx_load		"movzwl 0x12(%rsi), %eax"
	ROW movsx		"movsbq %cl, %rdx"
	ROW movsxd		"movslq %ecx, %rax"
	ROW movsx_rip		"movsbl kst_mem+0x61(%rip), %eax"
	ROW movbe_bswap		"bswap %rax"
	ROW cdqe		"cltq"
	ROW cwde		"cwtl"
	ROW cqo			"cqto"
	ROW cdq			"cltd"
	ROW lahf		"lahf"
	ROW sahf		"sahf"
	ROW xlat		"xlat" "lea kst_mem(%rip), %rbx"

	/* addresses */
	ROW lea			"lea 0x123(%rax,%rcx,4), %rdx"
	ROW lea_rip		"lea kst_mem+0x80(%rip), %rax"
	ROW lea_rip_back	"lea kst_row_lea_rip_back(%rip), %r13"
	ROW lea_sp		"lea -8(%rsp), %rsp" "" "mov %rsp, %rax; add $8, %rsp"
	ROW lea32		"lea 0x10(%eax), %ecx"

	/* arithmetic and logic */
	.irp op, add, sub, adc, sbb, and, or, xor, cmp
	ROW \op\()_reg		"\op %rcx, %rax"
	ROW \op\()_imm8		"\op $0x7f, %dx"
	ROW \op\()_imm32	"\op $-0x12345678, %r8"
	ROW \op\()_load		"\op 0x38(%rsi), %r9d"
	ROW \op\()_store	"\op %r10, 0x40(%rdi)"
	ROW \op\()_rip		"\op kst_mem+0x90(%rip), %rcx"
	ROW \op\()_rip_imm	"\op\()l $0x1234567, kst_mem+0x98(%rip)"
	.endr
	ROW add_lock		"lock addq $5, 0x48(%rdi)"
	ROW add_sp		"add $16, %rsp"
	ROW sub_sp		"sub $32, %rsp" "" "mov %rsp, %rax; lea 32(%rsp), %rsp"
	ROW inc			"inc %eax"
	ROW dec			"dec %r12"
	ROW inc_mem		"incq 0x10(%rdi)"
	ROW dec_rip		"decl kst_mem+0xa0(%rip)"
	ROW neg			"neg %rax"
	ROW not			"not %ecx"
	ROW neg_mem		"negl 0x18(%rdi)"
	ROW test_reg		"test %rcx, %rax"
	ROW test_imm		"test $0x80, %al"
	ROW test_mem		"testl $0x8000, 0x20(%rsi)"
	ROW test_rip		"testb $0x55, kst_mem+0xa8(%rip)"
	ROW imul1		"imul %rcx"
	ROW imul2		"imul %rcx, %rax"
	ROW imul3		"imul $0x1234, 0x10(%rsi), %r9"
	ROW imul3_rip		"imul $0x12345, kst_mem+0xb0(%rip), %eax"
	ROW mul			"mul %r8"
	ROW mul_mem		"mull 0x14(%rsi)"
	ROW div			"div %rcx" "mov $0, %edx; mov $7, %ecx"
	ROW div32		"div %r9d" "mov $1, %edx; mov $0x10000, %r9d"
	ROW idiv		"idiv %rcx" "mov $-1, %rdx; mov $-0x123456, %rax; mov $77, %ecx"
	ROW idiv_rip		"idivl seven(%rip)" "mov $-1, %edx; mov $-100, %eax"
	.irp op, shl, shr, sar, rol, ror, rcl, rcr
	ROW \op\()_1		"\op %rax"
	ROW \op\()_imm		"\op $5, %r9d"
	ROW \op\()_cl		"\op %cl, %rdx"
	ROW \op\()_mem		"\op\()q $3, 0x50(%rdi)"
	.endr
	ROW shld		"shld $7, %rax, %rcx"
	ROW shrd_cl		"shrd %cl, %rax, %rdx"
	ROW bsf			"bsf %rcx, %rax" "or $0x100, %rcx"
	ROW bsr			"bsr %rcx, %rax" "or $0x100, %rcx"
	ROW popcnt		"popcnt %rcx, %rax" "" "" KST_POPCNT
	ROW bt			"bt %rcx, %rax"
	ROW bt_imm		"bt $13, %rax"
	ROW bts			"bts $17, %rax"
	ROW btr_mem		"btrl $3, 0x60(%rdi)"
	ROW btc_lock		"lock btcq $9, 0x68(%rdi)"
	ROW bts_rip		"btsl $4, kst_mem+0xc0(%rip)"
	ROW clc			"clc"
	ROW stc			"stc"
	ROW cmc			"cmc"
	ROW cld			"cld"
	ROW std			"std"

	/* conditions */
	.irp cc, o, no, b, ae, e, ne, be, a, s, ns, p, np, l, ge, le, g
	ROW j\cc		"j\cc 2f" "" "" KST_JUMPS
	ROW j\cc\()_near	"{disp32} j\cc 2f" "" "" KST_JUMPS
	ROW set\cc		"set\cc %al"
	ROW cmov\cc		"cmov\cc %rcx, %rax"
	.endr
	ROW setc_mem		"setc 0x70(%rdi)"
	ROW cmov_rip		"cmovz kst_mem+0xd0(%rip), %r10d"
	ROW jcc_back		"jc 3b" "jmp 4f; 3: jmp 2f; 4:" "" KST_JUMPS
	ROW jcc_back_near	"{disp32} jnc 3b" "jmp 4f; 3: jmp 2f; 4:" "" KST_JUMPS
	ROW jrcxz		"jrcxz 2f" "" "" KST_JUMPS
	ROW jecxz		"jecxz 2f" "" "" KST_JUMPS
	ROW loop		"loop 2f" "" "" KST_JUMPS
	ROW loope		"loope 2f" "" "" KST_JUMPS
	ROW loopne		"loopne 2f" "" "" KST_JUMPS
	ROW loop_many		"loop 3b" "mov $9, %ecx; 3: incq 0x10(%rdi)" "" (KST_JUMPS | KST_NINE)
	ROW loopl		".byte 0x67; loop 2f" "" "" KST_JUMPS

	/* jumps */
	ROW jmp			"jmp 2f" "" "" KST_JUMPS
	ROW jmp_near		"{disp32} jmp 2f" "" "" KST_JUMPS
	ROW jmp_back		"jmp 3b" "jmp 4f; 3: jmp 2f; 4:" "" KST_JUMPS
	.irp reg, rax, rcx, rdx, rbx, rbp, rsi, rdi, r8, r9, r10, r11, r12, r13, r14, r15
	ROW jmp_\reg		"jmp *%\reg" "lea 2f(%rip), %\reg" "" KST_JUMPS
	ROW call_\reg		"call *%\reg" "lea 3f(%rip), %\reg" "jmp kst_exit_0; 3: jmp 2f" KST_JUMPS
	.endr
	ROW jmp_notrack		"notrack jmp *%rax" "lea 2f(%rip), %rax" "" KST_JUMPS
	ROW jmp_mem		"jmp *0x80(%rdi)" "lea 2f(%rip), %rax; mov %rax, 0x80(%rdi)" "" KST_JUMPS
	ROW jmp_sib		"jmp *0x80(%rdi,%r15,8)" "lea 2f(%rip), %rax; mov %rax, 0x98(%rdi)" "" KST_JUMPS
	ROW jmp_rip		"jmp *3f(%rip)" "" "int3; 3: .quad 2f" KST_JUMPS
	ROW jmp_stack		"jmp *0x10(%rsp)" "lea 2f(%rip), %rax; mov %rax, 0x10(%rsp)" "" KST_JUMPS

	/* calls and returns */
	ROW call		"call 3f" "" "jmp kst_exit_0; 3: jmp 2f" KST_JUMPS
	ROW call_returns	"call 3f" "" "jmp kst_exit_0; 3: inc %eax; ret" KST_JUMPS
	ROW call_back		"call 3b" "jmp 4f; 3: inc %eax; ret; 4:" "" KST_JUMPS
	ROW call_mem		"call *0x80(%rdi)" "lea 2f(%rip), %rax; mov %rax, 0x80(%rdi)" "" KST_JUMPS
	ROW call_rip		"call *3f(%rip)" "" "int3; 3: .quad 2f" KST_JUMPS
	ROW call_stack		"call *0x10(%rsp)" "lea 2f(%rip), %rax; mov %rax, 0x10(%rsp)" "" KST_JUMPS
	ROW ret			"ret" "lea 2f(%rip), %rax; push %rax" "" KST_JUMPS
	ROW ret_rep		"rep ret" "lea 2f(%rip), %rax; push %rax" "" KST_JUMPS
	ROW ret_imm16		"ret $0x18" "lea 2f(%rip), %rax; push %rax" "" KST_JUMPS

	/* the stack */
	ROW push		"push %rax"
	ROW push_r12		"push %r12"
	ROW push_sp		"push %rsp"
	ROW push_imm8		"pushq $-5"
	ROW push_imm32		"pushq $0x12345678"
	ROW push_mem		"pushq 0x10(%rsi)"
	ROW push_rip		"pushq kst_mem+0xe0(%rip)"
	ROW push_stack		"pushq 8(%rsp)"
	ROW push16		"pushw %ax"
	ROW pop			"pop %rax"
	ROW pop_r13		"pop %r13"
	ROW pop_mem		"popq 0x18(%rdi)"
	ROW pop_rip		"popq kst_mem+0xe8(%rip)"
	ROW pop_stack		"popq 8(%rsp)"
	ROW pop_sp		"pop %rsp" "push %rbp"
	ROW enter		"enter $0x20, $0" "" "lea 0x20(%rsp), %rsp"
	ROW enter_nested	"enter $0x20, $2" "" "lea 0x20(%rsp), %rsp"
	ROW leave		"leave"
	ROW pushf		"pushfq"
	ROW pushf16		"pushfw"
	ROW popf		"popfq" "pushq $0x8d7"
	ROW popf_irqs_off	"popfq" "pushq $0x2"
	ROW popf_irqs_on	"popfq" "pushq $0x246"
	ROW popf16		"popfw" "pushw $0x0cd7"
	ROW popf_all_bits	"popfq" "pushq $0x1b8eff"
	ROW cli			"cli"
	ROW sti			"sti"

	/* strings */
	ROW movsb		"movsb" "cld"
	ROW movsq_std		"movsq" "std"
	ROW rep_movsb		"rep movsb" "cld; mov $37, %ecx"
	ROW rep_movsq		"rep movsq" "cld; mov $9, %ecx"
	ROW rep_movsl_std	"rep movsl" "std; mov $9, %ecx"
	ROW rep_movsb_0		"rep movsb" "cld; xor %ecx, %ecx"
	ROW stosq		"stosq" "cld"
	ROW rep_stosb		"rep stosb" "cld; mov $100, %ecx"
	ROW rep_stosq		"rep stosq" "cld; mov $20, %ecx"
	ROW lodsb		"lodsb" "cld"
	ROW scasb		"repne scasb" "cld; mov $200, %ecx"
	ROW cmpsb		"repe cmpsb" "cld; mov $64, %ecx"

	/* exchanges */
	ROW xchg		"xchg %rax, %rcx"
	ROW xchg_mem		"xchg %rax, 0x10(%rdi)"
	ROW xchg_rip		"xchg %ecx, kst_mem+0xf0(%rip)"
	ROW cmpxchg		"cmpxchg %rcx, 0x10(%rdi)"
	ROW cmpxchg_equal	"lock cmpxchg %rcx, 0x10(%rdi)" "mov 0x10(%rdi), %rax"
	ROW cmpxchg_rip		"lock cmpxchg %ecx, kst_mem+0xf8(%rip)"
	ROW cmpxchg16b		"lock cmpxchg16b 0x20(%rdi)"
	ROW xadd		"xadd %rcx, %rax"
	ROW xadd_lock		"lock xadd %rcx, 0x30(%rdi)"
	ROW xadd_rip		"lock xadd %ecx, kst_mem+0x100(%rip)"

	/* Instructions without an effect, and without data. */
	ROW nop			"nop"
	ROW nop_long		".byte 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00"
	ROW nop_data16		"xchg %ax, %ax"
	/* Ours refuses it elsewhere: an indirect branch would no longer find the landing pad. */
#ifndef CONFIG_X86_KERNEL_IBT
	ROW endbr64		"endbr64"
#endif
	ROW pause		"pause"
	ROW lfence		"lfence"
	ROW mfence		"mfence"
	ROW sfence		"sfence"
	ROW prefetch		"prefetcht0 0x40(%rsi)"
	ROW clflush_rip		"clflush kst_mem(%rip)"
	ROW outb		"outb %al, $0x80"
	ROW cpuid		"cpuid" "mov $0, %eax; mov $0, %ecx"
	ROW rdtsc		"rdtsc" "" "" KST_NO_AX
	ROW rdtscp		"rdtscp" "" "" (KST_NO_AX | KST_RDTSCP)
	ROW rdmsr		"rdmsr" "mov $0xc0000080, %ecx"

	/* segments */
	ROW gs_rip		"mov %gs:this_cpu_off(%rip), %rax"
	ROW gs_base		"mov %gs:(%rdx), %rax" "mov $this_cpu_off, %rdx"
	ROW gs_abs		"mov %gs:this_cpu_off, %rcx"
	ROW gs_add_rip		"add %gs:this_cpu_off(%rip), %rbx"

	/* vectors */
	ROW movdqu		"movdqu 0x10(%rsi), %xmm0" "" "movdqu %xmm0, 0x40(%rdi)" KST_FPU
	ROW movdqu_store	"movdqu %xmm1, 0x40(%rdi)" "movdqu 0x20(%rsi), %xmm1" "" KST_FPU
	ROW movaps_rip		"movaps kst_mem+0x110(%rip), %xmm2" "" "movdqu %xmm2, 0x50(%rdi)" KST_FPU
	ROW movq_xmm		"movq %rax, %xmm3" "" "movdqu %xmm3, 0x50(%rdi)" KST_FPU
	ROW pxor		"pxor %xmm4, %xmm5" "movdqu (%rsi), %xmm4; movdqu 16(%rsi), %xmm5" "movdqu %xmm5, 0x50(%rdi)" KST_FPU
	ROW paddq_rip		"paddq kst_mem+0x120(%rip), %xmm5" "movdqu 16(%rsi), %xmm5" "movdqu %xmm5, 0x50(%rdi)" KST_FPU
	ROW pshufd_rip		"pshufd $0x1b, kst_mem+0x130(%rip), %xmm6" "" "movdqu %xmm6, 0x50(%rdi)" KST_FPU
	ROW fld			"fldl 0x18(%rsi)" "fninit" "fstpl 0x60(%rdi)" KST_FPU
	ROW vmovdqu		"vmovdqu 0x10(%rsi), %ymm0" "" "vmovdqu %ymm0, 0x40(%rdi)" (KST_FPU | KST_AVX)
	ROW vmovdqu_rip		"vmovdqu kst_mem+0x140(%rip), %ymm7" "" "vmovdqu %ymm7, 0x40(%rdi)" (KST_FPU | KST_AVX)
	ROW vpxor		"vpxor %xmm4, %xmm5, %xmm6" "movdqu (%rsi), %xmm4; movdqu 16(%rsi), %xmm5" "movdqu %xmm6, 0x50(%rdi)" (KST_FPU | KST_AVX)

	/* faults that the kernel repairs: the instruction is left by way of label 2 */
	ROW fault_load		"mov 0x10(%rax), %rcx" "movabs $0xffffeb0000000000, %rax" "REPAIRED .Lat_fault_load" KST_JUMPS
	ROW fault_store		"mov %rcx, 0x10(%rax)" "movabs $0xffffeb0000000000, %rax" "REPAIRED .Lat_fault_store" KST_JUMPS
	ROW fault_movzx		"movzbl 0x10(%rax), %ecx" "movabs $0xffffeb0000000000, %rax" "REPAIRED .Lat_fault_movzx" KST_JUMPS
	ROW fault_inc		"lock incl 0x10(%rax)" "movabs $0xffffeb0000000000, %rax" "REPAIRED .Lat_fault_inc" KST_JUMPS
	ROW fault_bt		"btl %ecx, 0x10(%rax)" "movabs $0xffffeb0000000000, %rax" "REPAIRED .Lat_fault_bt" KST_JUMPS
	ROW fault_rep		"rep movsb" "cld; movabs $0xffffeb0000000000, %rsi; mov $8, %ecx" "REPAIRED .Lat_fault_rep" KST_JUMPS
	ROW fault_protection	"mov (%rax), %rcx" "movabs $0x8000000000000000, %rax" "REPAIRED .Lat_fault_protection" KST_JUMPS
	ROW fault_divide	"div %rcx" "xor %ecx, %ecx" "REPAIRED .Lat_fault_divide" KST_JUMPS
	ROW fault_rdmsr		"rdmsr" "mov $0xdeadbeef, %ecx" "REPAIRED .Lat_fault_rdmsr" KST_JUMPS

	.section .rodata.kst_rows, "a", @progbits
	.globl	kst_rows_end
kst_rows_end:
	/* An entry without a name is the end. */
	.quad	0, 0, 0, 0, 0

	/*
	 * not in the text, where it would be a neighbour that cannot be decoded, which prevents
	 * jumps
	 */
	.section .rodata, "a"
	.balign 8
seven:	.quad	7
	.text
	.balign 16

/* For refusals. */
SYM_FUNC_START(kst_bytes)
	movabs	$0x1234567890abcdef, %rax
	mov	%rdi, %rax
	RET
SYM_FUNC_END(kst_bytes)

/* Begins as functions do where indirect branches are tracked. */
SYM_FUNC_START(kst_endbr)
	endbr64
	lea	9(%rdi), %rax
	RET
SYM_FUNC_END(kst_endbr)

/* A function that returns at once, for those that jump to it. */
SYM_FUNC_START(kst_return)
	RET
SYM_FUNC_END(kst_return)

/* Functions that differ by a number, KST_MANY_SIZE bytes each. */
.macro ONE_OF_MANY number
	.balign KST_MANY_SIZE
	.type	kst_many_\number, @function
kst_many_\number:
	nop
	lea	(%rdi), %rax
	add	$\number, %rax
	RET
	.size	kst_many_\number, . - kst_many_\number
.endm

	.balign KST_MANY_SIZE
	.globl	kst_many
kst_many:
	.set	.Lnumber, 0
	.altmacro
.rept KST_MANY
	ONE_OF_MANY %.Lnumber
	.set	.Lnumber, .Lnumber + 1
.endr
	.noaltmacro

/*
 * A function with KST_MANY instructions to probe, KST_LONG_STEP bytes apart, each of which adds 1.
 */
SYM_FUNC_START(kst_long)
	mov	%rdi, %rax
SYM_INNER_LABEL(kst_long_first, SYM_L_GLOBAL)
.rept KST_MANY
	lea	1(%rax), %rax
	.skip	KST_LONG_STEP - 4, 0x90
.endr
	RET
SYM_FUNC_END(kst_long)

.macro BAD name:req, insn:req
SYM_FUNC_START(\name)
	\insn
	nop
	RET
SYM_FUNC_END(\name)
	STACK_FRAME_NON_STANDARD \name
.endm

	/* for declared.c to put on the list, in this order */
	BAD kst_listed_1	"nop"
	BAD kst_listed_2	"nop"
	BAD kst_listed_3	"nop"
	BAD kst_listed_4	"nop"
	BAD __pfx_kst_bytes	"nop"
	BAD __cfi_kst_bytes	"nop"
	BAD kst_pad_inside	"nop; endbr64"
	BAD kst_int3		"int3"
	BAD kst_ud2		"ud2"
	BAD kst_int_80		"int $0x80"
	BAD kst_int1		".byte 0xf1"
	BAD kst_mov_ss		"mov %eax, %ss"
	BAD kst_vmcall		"vmcall"
	BAD kst_far_call	"lcall *(%rax)"
	BAD kst_far_jmp		"ljmp *(%rax)"
	BAD kst_jmp_gs		"jmp *%gs:this_cpu_off(%rip)"
	/* jmp *(%r16) */
	BAD kst_jmp_rex2	".byte 0xd5, 0x10, 0xff, 0x20"
	BAD kst_iret		"iretq"
