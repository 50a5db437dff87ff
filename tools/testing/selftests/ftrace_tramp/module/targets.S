/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A function at an odd address, as -Os has many.
 */
#include <linux/linkage.h>
#include <asm/nospec-branch.h>

	.text
	.balign 16
	.byte 0xcc
SYM_FUNC_START_NOALIGN(fts_odd)
	incq fts_odd_calls(%rip)
	RET
SYM_FUNC_END(fts_odd)

	.data
	.balign 8
SYM_DATA(fts_odd_calls, .quad 0)
