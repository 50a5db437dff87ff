/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Functions for text_tables.rs, which declares them itself: not part of the bindings. Contexts:
 * process.
 */
#ifndef _FERROTRACE_SYS_AROUND_H
#define _FERROTRACE_SYS_AROUND_H

#include <linux/types.h>

struct exception_table_entry;

/* vmlinux.lds.S: the image's exception table. */
extern struct exception_table_entry __start___ex_table[], __stop___ex_table[];

/*
 * Reasons why the code from @start to before @end must not be changed or run elsewhere; 0 is none.
 */
enum ferro_reserved {
	FERRO_FREE,
	FERRO_JUMP_LABEL,
	FERRO_STATIC_CALL,
	FERRO_FTRACE,
	FERRO_EXCEPTION,
};

/* Takes the lock of jump labels. */
int ferro_code_reserved(unsigned long start, unsigned long end);

/*
 * Returns the kind of table entry of the same part of the kernel that leads to an address from
 * @start to before @end: a jump label (1) or the fixup of an exception (2).
 */
int ferro_code_entered(unsigned long start, unsigned long end);

/*
 * Returns the next target of a jump label or of an exception fixup in the code from @start to before
 * @end; 0 if there is none. *@at is the position of the search, 0 at first.
 */
unsigned long ferro_code_exit(unsigned long start, unsigned long end, unsigned long *at);

/* True if memory from @start to before @end is data that is never written. */
bool ferro_is_rodata(unsigned long start, unsigned long end);

/* True for code that exists as long as the kernel, or its module: not for initialisation code. */
bool ferro_stays(unsigned long addr);

/* Returns 1 if @addr is in the thunks for indirect branches, 2 for the return thunk. */
int ferro_thunk(unsigned long addr);

#endif /* _FERROTRACE_SYS_AROUND_H */
