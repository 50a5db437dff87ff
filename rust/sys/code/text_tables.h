/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Functions for text_tables.rs, which declares them itself: not part of the bindings. Contexts: process.
 */
#ifndef _FERROTRACE_SYS_AROUND_H
#define _FERROTRACE_SYS_AROUND_H

#include <linux/types.h>

struct exception_table_entry;

/* vmlinux.lds.S: the image's exception table. */
extern struct exception_table_entry __start___ex_table[], __stop___ex_table[];

/* What forbids that the code from @start to before @end is changed or runs elsewhere; 0 is nothing. */
enum ferro_reserved {
	FERRO_FREE,
	FERRO_JUMP_LABEL,
	FERRO_STATIC_CALL,
	FERRO_FTRACE,
	FERRO_EXCEPTION,
};

/* Takes the lock of jump labels. */
int ferro_code_reserved(unsigned long start, unsigned long end);

/* Whether a jump label (1), or the fixup of an exception (2), of the same part of the kernel leads to a place from @start to before @end. */
int ferro_code_entered(unsigned long start, unsigned long end);

/*
 * The next place to which a jump label or the fixup of an exception leads from @start to before @end, 0 if there is none. *@at is where
 * the search begins, 0 at first, and where it goes on.
 */
unsigned long ferro_code_exit(unsigned long start, unsigned long end, unsigned long *at);

/* Whether memory from @start to before @end is data that nobody writes. */
bool ferro_is_rodata(unsigned long start, unsigned long end);

/* Whether code is there as long as the kernel, or its module, is: not that which runs before the first process. */
bool ferro_stays(unsigned long addr);

/* Whether @addr is in the thunks for indirect branches (1), or is that for returns (2). */
int ferro_thunk(unsigned long addr);

#endif /* _FERROTRACE_SYS_AROUND_H */
