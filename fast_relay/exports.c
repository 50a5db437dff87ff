// SPDX-License-Identifier: GPL-2.0
/*
 * C part of fast relay channels: exports the functions and the symbols of the Rust crate, in the
 * way of the kernel's own rust/exports.c, and defines a mutex that is usable at boot.
 */
#include <linux/export.h>
#include <linux/ferrotrace_relay.h>
#include <linux/mutex.h>

#include "raw/bindings.h"

DEFINE_MUTEX(relay_fast_mutex);

EXPORT_SYMBOL_GPL(__relay_fast_open);
EXPORT_SYMBOL_GPL(relay_fast_close);
EXPORT_SYMBOL_GPL(relay_fast_lost);
EXPORT_SYMBOL_GPL(relay_fast_reserve_slow);
EXPORT_SYMBOL_GPL(relay_fast_time);

#include "exports_generated.h"
