/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Wrappers for macros and static inline functions, which Rust cannot call. Each is named after the
 * macro or function that it wraps.
 */
#ifndef _FERROTRACE_SYS_CODE_HELPERS_H
#define _FERROTRACE_SYS_CODE_HELPERS_H

#include <linux/types.h>

/* kernel.h: true for an address in the text of the kernel or of a module. */
bool ferro_is_text(const void *addr);

#endif /* _FERROTRACE_SYS_CODE_HELPERS_H */
