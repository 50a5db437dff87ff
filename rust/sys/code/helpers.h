/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Functions for what Rust cannot call: macros and static inline functions.
 * Each does what the macro or function in its name does.
 */
#ifndef _FERROTRACE_SYS_CODE_HELPERS_H
#define _FERROTRACE_SYS_CODE_HELPERS_H

#include <linux/types.h>

/* kernel.h: whether this is the address of code of the kernel or of a module. */
bool ferro_is_text(const void *addr);

#endif /* _FERROTRACE_SYS_CODE_HELPERS_H */
