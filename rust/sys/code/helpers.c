// SPDX-License-Identifier: GPL-2.0
/* Wrappers for macros and static inline functions, which Rust cannot call. */
#include <linux/export.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/rcupdate.h>

#include "helpers.h"

bool ferro_is_text(const void *addr)
{
	return kernel_text_address((unsigned long)addr);
}
EXPORT_SYMBOL_GPL(ferro_is_text);

struct module *ferro_module_get(unsigned long addr)
{
	struct module *mod;

	guard(rcu)();
	mod = __module_address(addr);
	return mod && try_module_get(mod) ? mod : NULL;
}
EXPORT_SYMBOL_GPL(ferro_module_get);

bool ferro_is_module_address(unsigned long addr)
{
	return is_module_address(addr);
}
EXPORT_SYMBOL_GPL(ferro_is_module_address);

void ferro_module_put(struct module *mod)
{
	module_put(mod);
}
EXPORT_SYMBOL_GPL(ferro_module_put);

int ferro_module_state(const struct module *mod)
{
	return READ_ONCE(mod->state);
}
EXPORT_SYMBOL_GPL(ferro_module_state);

bool ferro_in_init_text(unsigned long addr, const struct module *mod)
{
	return within_module_mem_type(addr, mod, MOD_INIT_TEXT);
}
EXPORT_SYMBOL_GPL(ferro_in_init_text);
