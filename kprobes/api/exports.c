// SPDX-License-Identifier: GPL-2.0
/*
 * Exports the symbols of the crate ferro_kprobe for its clients, in
 * the way of the kernel's own rust/exports.c.
 */
#include <linux/export.h>

#include "exports_generated.h"
