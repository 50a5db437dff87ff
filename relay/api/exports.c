// SPDX-License-Identifier: GPL-2.0
/*
 * Exports the symbols of the crate ferro_relay for its clients, in the way of the kernel's own
 * rust/exports.c. Also has the mutex of the list in raw/leaked_channels.rs.
 */
#include <linux/export.h>
#include <linux/mutex.h>

#include "raw/bindings.h"

DEFINE_MUTEX(relay_api_mutex);

#include "exports_generated.h"
