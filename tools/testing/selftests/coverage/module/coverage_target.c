// SPDX-License-Identifier: GPL-2.0
/*
 * A function whose instructions the test knows. Writing a number to the parameter "call" calls it,
 * reading it returns the result. Writing a number other than 0 to "blocks" executes a function of many
 * blocks, reading it returns its address.
 */
#include <linux/compiler.h>
#include <linux/linkage.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/objtool.h>

long coverage_target(long value);

/* Returns value + 1, or 0 for 0. The offsets of its instructions are in coverage.c. */
asm(".pushsection .text\n"
	".globl coverage_target\n"
	".type coverage_target, @function\n"
	".balign 16\n"
	"coverage_target:\n"
	ANNOTATE_NOENDBR
	"	push %rbx\n"
	"	mov %rdi, %rbx\n"
	"	test %ebx, %ebx\n"
	"	je 1f\n"
	"	lea 1(%rbx), %rax\n"
	"	jmp 2f\n"
	"1:	xor %eax, %eax\n"
	"2:	pop %rbx\n"
	"	" ASM_RET
	".size coverage_target, . - coverage_target\n"
	".popsection\n");

long coverage_blocks(long value);

/* Executes 4000 blocks of 24 bytes, unless value is 0: the first begins at 8. */
asm(".pushsection .text\n"
	".globl coverage_blocks\n"
	".type coverage_blocks, @function\n"
	".balign 16\n"
	"coverage_blocks:\n"
	ANNOTATE_NOENDBR
	"	test %edi, %edi\n"
	"	{disp32} je 2f\n"
	"	.rept 4000\n"
	"	jmp 1f\n"
	"	.skip 22, 0x90\n"
	"1:\n"
	"	.endr\n"
	"2:	" ASM_RET
	".size coverage_blocks, . - coverage_blocks\n"
	".popsection\n");

static long result;

static int set(const char *text, const struct kernel_param *param)
{
	long value;
	int err = kstrtol(text, 0, &value);

	if (!err)
		result = coverage_target(value);
	return err;
}

static int get(char *text, const struct kernel_param *param)
{
	return sprintf(text, "%ld\n", result);
}

static const struct kernel_param_ops ops = { .set = set, .get = get };
module_param_cb(call, &ops, NULL, 0600);

static int get_address(char *text, const struct kernel_param *param)
{
	return sprintf(text, "%lx\n", (unsigned long)coverage_target);
}

static const struct kernel_param_ops address_ops = { .get = get_address };
module_param_cb(address, &address_ops, NULL, 0400);

static int set_blocks(const char *text, const struct kernel_param *param)
{
	long value;
	int err = kstrtol(text, 0, &value);

	if (!err)
		coverage_blocks(value);
	return err;
}

static int get_blocks(char *text, const struct kernel_param *param)
{
	return sprintf(text, "%lx\n", (unsigned long)coverage_blocks);
}

static const struct kernel_param_ops blocks_ops = { .set = set_blocks, .get = get_blocks };
module_param_cb(blocks, &blocks_ops, NULL, 0600);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Target of the selftests of live coverage");
