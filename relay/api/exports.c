// SPDX-License-Identifier: GPL-2.0
/*
 * Exports the symbols of the crate ferro_relay for its clients, in the way of the kernel's own
 * rust/exports.c. Also has the mutex of the list in raw/leaked_channels.rs and the notifier of
 * raw/module_notifier.rs.
 */
#include <linux/export.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/notifier.h>

#include "raw/bindings.h"

DEFINE_MUTEX(relay_api_mutex);

static int module_event(struct notifier_block *nb, unsigned long state, void *module)
{
	if (state == MODULE_STATE_GOING)
		relay_api_module_going(module);
	return NOTIFY_DONE;
}

static struct notifier_block modules = { .notifier_call = module_event };

int relay_api_watch_modules(void)
{
	return register_module_notifier(&modules);
}

void relay_api_unwatch_modules(void)
{
	unregister_module_notifier(&modules);
}

#include "exports_generated.h"
