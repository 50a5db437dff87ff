// SPDX-License-Identifier: GPL-2.0
/*
 * Exports of the Rust crates that are built into the kernel, in the way of the kernel's own
 * rust/exports.c.
 */
#include <linux/export.h>

#include "exports_generated.h"

#include <linux/gkhi.h>

EXPORT_SYMBOL_GPL(gkh_register);
EXPORT_SYMBOL_GPL(gkh_arm);
EXPORT_SYMBOL_GPL(gkh_disarm);
EXPORT_SYMBOL_GPL(gkh_deregister);
EXPORT_SYMBOL_GPL(gkh_identify);
EXPORT_SYMBOL_GPL(gkh_delete);
EXPORT_SYMBOL_GPL(gkh_disarm_self);
EXPORT_SYMBOL_GPL(gkh_is_armed);
