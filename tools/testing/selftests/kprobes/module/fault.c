// SPDX-License-Identifier: GPL-2.0
/*
 * Handlers for faults, which the Rust engine has: <linux/kprobes_fault.h>.
 */
#include <linux/irqflags.h>
#include <linux/kprobes_fault.h>
#include <linux/linkage.h>
#include <linux/objtool.h>
#include <linux/ptrace.h>
#include <linux/uaccess.h>
#include <asm/asm.h>
#include <asm/trapnr.h>

#include "kprobes_selftest.h"

#ifdef CONFIG_KPROBES_ENGINE_RUST

/* A function in assembly. */
#define FUNCTION(name, ...)					\
	asm("	.pushsection .text\n"				\
	    "	.type " name ", @function\n"			\
	    "	.globl " name "\n"				\
	    ASM_FUNC_ALIGN					\
	    name ":\n"						\
	    ANNOTATE_NOENDBR "\n"				\
	    __VA_ARGS__						\
	    "	.size " name ", .-" name "\n"			\
	    "	.popsection\n")

/*
 * long kst_load(long *from): the value there plus one; with an entry in the exception table, -1 if
 * it faults.
 */
#define LOAD(name, rest)					\
	FUNCTION(name,						\
		 "1:	movq (%rdi), %rax\n"			\
		 name "_next:\n"				\
		 "	addq $1, %rax\n"			\
		 ASM_RET					\
		 rest)

LOAD("kst_load", "");
LOAD("kst_try_load", "2: movq $-1, %rax\n" ASM_RET _ASM_EXTABLE(1b, 2b));

/* long kst_divide(long *by): 84 divided by the value there. */
FUNCTION("kst_divide",
	 "	movl $84, %eax\n"
	 "	xorl %edx, %edx\n"
	 "kst_divide_at:\n"
	 "	divq (%rdi)\n"
	 ASM_RET);

/* long kst_put(long *to): stores 41 there. Returns 42. */
FUNCTION("kst_put",
	 "	movq $41, (%rdi)\n"
	 "	movl $42, %eax\n"
	 ASM_RET);

/*
 * long kst_call_there(long *to), kst_jump_there(long *to): result of the function that *to points
 * to; plus one if called.
 */
FUNCTION("kst_call_there",
	 ANNOTATE_RETPOLINE_SAFE "\n"
	 "	call *(%rdi)\n"
	 "	addq $1, %rax\n"
	 ASM_RET);
FUNCTION("kst_jump_there",
	 ANNOTATE_RETPOLINE_SAFE "\n"
	 "	jmp *(%rdi)\n");

/* Nothing is there; and nothing can be. */
static const struct {
	long *address;
	int trapnr;
} bad[] = {
	{ (long *)0xffffeb0000000000, X86_TRAP_PF },
	{ (long *)0x8000000000000000, X86_TRAP_GP },
};

static unsigned int pres, posts, faults, wrong;
/* Of the fault that is expected. */
static const void *expected_ip;
static int expected_trapnr;
static struct kprobe *expected_probe;
static unsigned long after_fault;
static long good = 41;

static void expect(struct kprobe *p, const void *ip, int trapnr)
{
	expected_probe = p;
	expected_ip = ip;
	expected_trapnr = trapnr;
	pres = 0;
	posts = 0;
	faults = 0;
	wrong = 0;
}

/* How often each kind of handler has been called, as it had to be. */
#define CALLED(fault, pre, post)		\
	do {					\
		EXPECT_EQ(faults, fault);	\
		EXPECT_EQ(pres, pre);		\
		EXPECT_EQ(posts, post);		\
		EXPECT_EQ(wrong, 0);		\
	} while (0)

PRE_HANDLER(count_pre, pres++);

POST_HANDLER(count_post, posts++);

static int declines(struct kprobe *p, struct pt_regs *regs, int trapnr)
{
	faults++;
	if (p != expected_probe || trapnr != expected_trapnr || preemptible())
		wrong++;
	if (expected_ip && (void *)regs->ip != expected_ip)
		wrong++;
	return 0;
}
NOKPROBE_SYMBOL(declines);

static int repairs_register(struct kprobe *p, struct pt_regs *regs, int trapnr)
{
	declines(p, regs, trapnr);
	regs->di = (unsigned long)&good;
	return 1;
}
NOKPROBE_SYMBOL(repairs_register);

static int goes_on(struct kprobe *p, struct pt_regs *regs, int trapnr)
{
	declines(p, regs, trapnr);
	regs->ax = 6;
	regs->ip = after_fault;
	return 1;
}
NOKPROBE_SYMBOL(goes_on);

#define PROBE(at, ...) { .addr = (kprobe_opcode_t *)(at), .pre_handler = count_pre, __VA_ARGS__ }

/* Registers @kp with @handler, which is to be called for a fault at @ip. */
static bool register_fault(struct kprobe *kp, kprobe_fault_handler_t handler, const void *ip, int trapnr)
{
	expect(kp, ip, trapnr);
	return EXPECT_EQ(register_kprobe_fault(kp, handler), 0);
}

/*
 * The probed instruction faults, with a post handler and without one: it is executed again after
 * the repair. 41 is there afterwards.
 */
static void repaired_in(long (*function)(long *operand), long before)
{
	unsigned int i;

	for (i = 0; i < 2 * ARRAY_SIZE(bad); i++) {
		struct kprobe kp = PROBE(function, .post_handler = i & 1 ? count_post : NULL);

		if (!register_fault(&kp, repairs_register, function, bad[i / 2].trapnr))
			return;
		good = before;
		EXPECT_EQ(function(bad[i / 2].address), 42);
		EXPECT_EQ(good, 41);
		EXPECT(!irqs_disabled());
		EXPECT_EQ(faults, 1);
		good = before;
		EXPECT_EQ(function(&good), 42);
		EXPECT_EQ(good, 41);
		CALLED(1, 2, i & 1 ? 2 : 0);
		EXPECT_EQ(kp.nmissed, 0);
		unregister_kprobe(&kp);
		EXPECT_EQ(function(&good), 42);
		EXPECT_EQ(pres, 2);
	}
}

static void repaired(void)
{
	repaired_in(kst_load, 41);
}

static void repaired_store(void)
{
	repaired_in(kst_put, 0);
}

static long there(void)
{
	return 41;
}

static long (*good_branch)(void) = there;

static int repairs_branch(struct kprobe *p, struct pt_regs *regs, int trapnr)
{
	declines(p, regs, trapnr);
	regs->di = (unsigned long)&good_branch;
	return 1;
}
NOKPROBE_SYMBOL(repairs_branch);

/*
 * Branches through memory operands, which are emulated; repaired they hit the probe again. Assembly
 * has no type for CFI.
 */
static __nocfi void repaired_branch_in(long (*function)(long *to), long result)
{
	unsigned int i;

	for (i = 0; i < 2 * ARRAY_SIZE(bad); i++) {
		struct kprobe kp = PROBE(function, .post_handler = i & 1 ? count_post : NULL);

		if (!register_fault(&kp, repairs_branch, function, bad[i / 2].trapnr))
			return;
		EXPECT_EQ(function(bad[i / 2].address), result);
		EXPECT(!irqs_disabled());
		CALLED(1, 2, i & 1);
		EXPECT_EQ(function((long *)&good_branch), result);
		CALLED(1, 3, i & 1 ? 2 : 0);
		EXPECT_EQ(kp.nmissed, 0);
		unregister_kprobe(&kp);
	}
}

static void repaired_branch(void)
{
	repaired_branch_in(kst_call_there, 42);
	repaired_branch_in(kst_jump_there, 41);
}

/* So is one that divides by 0. */
static void divided(void)
{
	long nothing = 0;
	unsigned int i;

	for (i = 0; i < 2; i++) {
		struct kprobe kp = PROBE(kst_divide_at, .post_handler = i & 1 ? count_post : NULL);

		if (!register_fault(&kp, repairs_register, kst_divide_at, X86_TRAP_DE))
			return;
		EXPECT_EQ(kst_divide(&nothing), 84 / good);
		EXPECT(!irqs_disabled());
		CALLED(1, 1, i & 1);
		unregister_kprobe(&kp);
	}
}

/* The same with the instruction skipped. */
static void left_out(void)
{
	unsigned int i;

	after_fault = (unsigned long)kst_load_next;
	for (i = 0; i < 2 * ARRAY_SIZE(bad); i++) {
		struct kprobe kp = PROBE(kst_load, .post_handler = i & 1 ? count_post : NULL);

		if (!register_fault(&kp, goes_on, kst_load, bad[i / 2].trapnr))
			return;
		EXPECT_EQ(kst_load(bad[i / 2].address), 7);
		EXPECT(!irqs_disabled());
		CALLED(1, 1, 0);
		/* No task runs there now. */
		EXPECT_EQ(kst_load(&good), 42);
		EXPECT_EQ(pres, 2);
		EXPECT_EQ(posts, i & 1);
		EXPECT_EQ(wrong, 0);
		EXPECT_EQ(kp.nmissed, 0);
		unregister_kprobe(&kp);
	}
}

/* The exception table repairs the fault if the handler declines or there is no handler. */
static void declined(void)
{
	unsigned int i;

	for (i = 0; i < 4 * ARRAY_SIZE(bad); i++) {
		struct kprobe kp = PROBE(kst_try_load, .post_handler = i & 1 ? count_post : NULL);
		bool with = i & 2;

		expect(&kp, kst_try_load, bad[i / 4].trapnr);
		if (!EXPECT_EQ(with ? register_kprobe_fault(&kp, declines) : register_kprobe(&kp), 0))
			return;
		EXPECT_EQ(kst_try_load(bad[i / 4].address), -1);
		EXPECT(!irqs_disabled());
		EXPECT_EQ(faults, with);
		EXPECT_EQ(kst_try_load(&good), 42);
		CALLED(with, 2, i & 1);
		unregister_kprobe(&kp);
	}
}

/* Several probes: each is asked, up to the first that has dealt with it. */
static void several(void)
{
	struct kprobe first = PROBE(kst_load), second = PROBE(kst_load), third = PROBE(kst_load);
	struct kprobe disabled = PROBE(kst_load, .flags = KPROBE_FLAG_DISABLED);

	expect(&second, kst_load, X86_TRAP_PF);
	EXPECT_EQ(register_kprobe(&first), 0);
	EXPECT_EQ(register_kprobe_fault(&second, repairs_register), 0);
	EXPECT_EQ(register_kprobe(&third), 0);
	EXPECT_EQ(register_kprobe_fault(&disabled, declines), 0);
	EXPECT_EQ(kst_load(bad[0].address), 42);
	EXPECT_EQ(faults, 1);
	EXPECT_EQ(pres, 3);
	EXPECT_EQ(wrong, 0);
	unregister_kprobe(&disabled);
	unregister_kprobe(&third);
	unregister_kprobe(&second);
	unregister_kprobe(&first);
}

static const long *load_from;

static __always_inline void load(void)
{
	asm volatile("leaq 1f(%%rip), %%rax\n\t"
		     "movq %%rax, %[after]\n\t"
		     "movq (%[from]), %%rax\n"
		     "1:"
		     : [after] "=m" (after_fault) : [from] "r" (load_from) : "rax", "memory");
}

static int loads_pre(struct kprobe *p, struct pt_regs *regs)
{
	pres++;
	load();
	return 0;
}
NOKPROBE_SYMBOL(loads_pre);

static void loads_post(struct kprobe *p, struct pt_regs *regs, unsigned long flags)
{
	posts++;
	load();
}
NOKPROBE_SYMBOL(loads_post);

/* The handlers fault, at a breakpoint and at a place of ftrace. */
static void in_handlers(void)
{
	struct kprobe at_breakpoint = {
		.addr = (kprobe_opcode_t *)kst_load, .pre_handler = loads_pre, .post_handler = loads_post,
	};
	struct kprobe at_ftrace = {
		.addr = (kprobe_opcode_t *)kst_target, .pre_handler = loads_pre, .post_handler = loads_post,
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		load_from = bad[i].address;
		if (!register_fault(&at_breakpoint, goes_on, NULL, bad[i].trapnr))
			return;
		EXPECT_EQ(kst_load(&good), 42);
		unregister_kprobe(&at_breakpoint);
		CALLED(2, 1, 1);
		if (!register_fault(&at_ftrace, goes_on, NULL, bad[i].trapnr))
			return;
		EXPECT(kprobe_ftrace(&at_ftrace));
		EXPECT_EQ(kst_target(1), 4);
		unregister_kprobe(&at_ftrace);
		CALLED(2, 1, 1);
	}
}

static int calls_try_load(struct kprobe *p, struct pt_regs *regs)
{
	pres++;
	if (kst_try_load(bad[0].address) != -1)
		wrong++;
	return 0;
}
NOKPROBE_SYMBOL(calls_try_load);

/*
 * A handler hits another probe, whose instruction faults: that hit is missed, so the fault is the
 * handler's.
 */
static void in_missed(void)
{
	struct kprobe outer = { .addr = (kprobe_opcode_t *)kst_load, .pre_handler = calls_try_load };
	struct kprobe inner = PROBE(kst_try_load, .post_handler = count_post);

	expect(&outer, kst_try_load, X86_TRAP_PF);
	EXPECT_EQ(register_kprobe_fault(&outer, declines), 0);
	EXPECT_EQ(register_kprobe_fault(&inner, repairs_register), 0);
	EXPECT_EQ(kst_load(&good), 42);
	CALLED(1, 1, 0);
	EXPECT_EQ(inner.nmissed, 1);
	EXPECT_EQ(wrong, 0);
	unregister_kprobe(&inner);
	unregister_kprobe(&outer);
}

static int faults_itself(struct kprobe *p, struct pt_regs *regs, int trapnr)
{
	struct kprobe *running = kprobe_running();
	long value;

	/* something runs that is no probe's handler, but a structure that can be looked at */
	if (!running || running == p || get_kernel_nofault(value, (long *)&running->addr) || value)
		wrong++;
	declines(p, regs, trapnr);
	if (copy_from_kernel_nofault(&value, bad[0].address, sizeof(value)) != -EFAULT)
		wrong++;
	/* a probe that is missed */
	if (kst_target(1) != 4)
		wrong++;
	regs->di = (unsigned long)&good;
	return 1;
}
NOKPROBE_SYMBOL(faults_itself);

/* A fault of the fault handler is not passed to it, and probes that it hits are missed. */
static void in_itself(void)
{
	struct kprobe kp = PROBE(kst_load, .post_handler = count_post), other = PROBE(kst_target);

	expect(&kp, kst_load, X86_TRAP_PF);
	EXPECT_EQ(register_kprobe_fault(&kp, faults_itself), 0);
	EXPECT_EQ(register_kprobe(&other), 0);
	EXPECT_EQ(kst_load(bad[0].address), 42);
	CALLED(1, 1, 1);
	EXPECT_EQ(other.nmissed, 1);
	EXPECT_EQ(wrong, 0);
	unregister_kprobe(&other);
	unregister_kprobe(&kp);
}

static void refused(void)
{
	struct kprobe kp = PROBE(kst_load), inside = PROBE(kst_bytes + 3);

	EXPECT_EQ(register_kprobe_fault(NULL, declines), -EINVAL);
	EXPECT_EQ(register_kprobe_fault(&kp, NULL), -EINVAL);
	EXPECT_EQ(register_kprobe_fault(&inside, declines), -EILSEQ);
	/* Twice: the first handler stays. Registered again: the handler is cleared. */
	expect(&kp, kst_load, X86_TRAP_PF);
	EXPECT_EQ(register_kprobe_fault(&kp, repairs_register), 0);
	EXPECT_EQ(register_kprobe_fault(&kp, declines), -EINVAL);
	EXPECT_EQ(register_kprobe(&kp), -EINVAL);
	EXPECT_EQ(kst_load(bad[0].address), 42);
	unregister_kprobe(&kp);
	kp.addr = (kprobe_opcode_t *)kst_try_load;
	EXPECT_EQ(register_kprobe(&kp), 0);
	EXPECT_EQ(kst_try_load(bad[0].address), -1);
	EXPECT_EQ(faults, 1);
	unregister_kprobe(&kp);
}

const struct test_case kst_fault_cases[] = {
	{ "fault.repaired", repaired },
	{ "fault.repaired_store", repaired_store },
	{ "fault.repaired_branch", repaired_branch },
	{ "fault.divided", divided },
	{ "fault.left_out", left_out },
	{ "fault.declined", declined },
	{ "fault.several", several },
	{ "fault.in_handlers", in_handlers },
	{ "fault.in_missed", in_missed },
	{ "fault.in_itself", in_itself },
	{ "fault.refused", refused },
	{ }
};

#else

const struct test_case kst_fault_cases[] = { { } };

#endif /* CONFIG_KPROBES_ENGINE_RUST */
