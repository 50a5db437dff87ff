/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Functions for symbols.rs and the tests, which declare them themselves: not part of the bindings.
 */
#ifndef _FERROTRACE_SYS_SYMBOLS_H
#define _FERROTRACE_SYS_SYMBOLS_H

#include <linux/types.h>

/* extable.h: true if the fixup of the instruction at @addr decodes it in place. */
bool ferro_is_decoded_on_fault(unsigned long addr);

/*
 * cfi.h: true if a kCFI trap decodes the instruction at @addr: one of the two that load and compare
 * the type.
 */
bool ferro_is_cfi_check(unsigned long addr);

/* kgdb.h: true if a debugger has put a breakpoint at @addr. */
bool ferro_is_kgdb_breakpoint(unsigned long addr);

/* Calls code without a type from the compiler, which CFI would check; for tests. */
u32 ferro_call_code(const void *code);

#endif /* _FERROTRACE_SYS_SYMBOLS_H */
