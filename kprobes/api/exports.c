// SPDX-License-Identifier: GPL-2.0
/*
 * Exports the symbols of the crate ferro_kprobe for its clients, in the way of the kernel's own
 * rust/exports.c. Also has the mutex of the list in raw/leaked_probes.rs.
 */
#include <linux/export.h>
#include <linux/mutex.h>

#include "raw/bindings.h"

DEFINE_MUTEX(kprobe_api_mutex);

#include "exports_generated.h"
