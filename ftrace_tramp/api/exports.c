// SPDX-License-Identifier: GPL-2.0
/*
 * Exports the symbols of the crate ferro_ftrace for its clients, in
 * the way of the kernel's own rust/exports.c.
 */
#include <linux/export.h>

#define EXPORT_SYMBOL_RUST_GPL(sym) extern int sym; EXPORT_SYMBOL_GPL(sym)

#include "exports_generated.h"
