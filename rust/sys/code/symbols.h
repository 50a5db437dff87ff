/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Functions for symbols.rs and the tests, which declare them themselves: not part of the bindings.
 */
#ifndef _FERROTRACE_SYS_SYMBOLS_H
#define _FERROTRACE_SYS_SYMBOLS_H

#include <linux/types.h>

/* extable.h: whether a fault of the instruction at @addr is repaired by decoding it, where it is. */
bool ferro_is_decoded_on_fault(unsigned long addr);

/* cfi.h: whether a trap of kCFI decodes the instruction at @addr: one of the two that load and compare the type. */
bool ferro_is_cfi_check(unsigned long addr);

/* kgdb.h: whether a debugger has put a breakpoint at @addr. */
bool ferro_is_kgdb_breakpoint(unsigned long addr);

/* module.h: whether @addr is in a module. */
bool ferro_is_module_address(unsigned long addr);

/* Calls code that no compiler has given a type, which CFI would want; for tests. */
u32 ferro_call_code(const void *code);

#endif /* _FERROTRACE_SYS_SYMBOLS_H */
