// SPDX-License-Identifier: GPL-2.0
/* Target for functions that are not to be executed: it only returns. */
#include <linux/linkage.h>
#include <linux/objtool.h>

asm(
	"	.text\n"
	"	.type ferro_just_return, @function\n"
	"	.globl ferro_just_return\n"
	ASM_FUNC_ALIGN
	"ferro_just_return:\n"
	ANNOTATE_NOENDBR "\n"
	ASM_RET
	"	.size ferro_just_return, .-ferro_just_return\n"
);
