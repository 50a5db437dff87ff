// SPDX-License-Identifier: GPL-2.0
/*
 * C part of the Rust relay engine: exports its functions, and defines a mutex that is usable at
 * boot.
 */
#include <linux/export.h>
#include <linux/ferrotrace_relay.h>
#include <linux/mutex.h>
#include <linux/relay.h>

#include "raw/bindings.h"

DEFINE_MUTEX(relay_rust_mutex);

EXPORT_SYMBOL_GPL(relay_open);
EXPORT_SYMBOL_GPL(relay_close);
EXPORT_SYMBOL_GPL(relay_flush);
EXPORT_SYMBOL_GPL(relay_reset);
EXPORT_SYMBOL_GPL(relay_switch_subbuf);
EXPORT_SYMBOL_GPL(relay_buf_full);
EXPORT_SYMBOL_GPL(relay_subbufs_consumed);
EXPORT_SYMBOL_GPL(relay_stats);
EXPORT_SYMBOL_GPL(relay_late_setup_files);
EXPORT_SYMBOL_GPL(relay_try_write);
EXPORT_SYMBOL_GPL(relay_try_write_lost);
EXPORT_SYMBOL_GPL(relay_file_operations);
