// SPDX-License-Identifier: GPL-2.0
/* Wrappers for macros and static inline functions, which Rust cannot call. */
#include <linux/export.h>
#include <linux/kernel.h>

#include "helpers.h"

bool ferro_is_text(const void *addr)
{
	return kernel_text_address((unsigned long)addr);
}
EXPORT_SYMBOL_GPL(ferro_is_text);
