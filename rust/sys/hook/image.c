// SPDX-License-Identifier: GPL-2.0
/* Sites of hooks and lasting code, by symbols of the image that modules cannot use. */
#include <linux/jump_label.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/rculist.h>
#include <linux/rcupdate.h>
#include <asm/sections.h>

#include "hook.h"

void ferro_hook_activate(struct gkhook *hook, bool active)
{
	if (active)
		static_key_enable(&hook->key.key);
	else
		static_key_disable(&hook->key.key);
}

#ifdef CONFIG_JUMP_LABEL
/* Sites in initialisation code have been freed before this is called. */
static int sites_between(const struct gkhook *hook, const struct jump_entry *entry,
			 const struct jump_entry *end)
{
	int sites = 0;

	for (; entry < end; entry++)
		sites += jump_entry_key(entry) == &hook->key.key && !jump_entry_is_init(entry);
	return sites;
}

int ferro_hook_sites(const struct gkhook *hook)
{
	const struct module *mod;
	int sites;

	sites = sites_between(hook, __start___jump_table, __stop___jump_table);
	guard(rcu)();
	list_for_each_entry_rcu(mod, &modules, list)
		if (mod->state != MODULE_STATE_UNFORMED)
			sites += sites_between(hook, mod->jump_entries,
					       mod->jump_entries + mod->num_jump_entries);
	return sites;
}
#else
int ferro_hook_sites(const struct gkhook *hook)
{
	return -1;
}
#endif

bool ferro_is_lasting_text(unsigned long addr)
{
	const struct module *mod;
	bool lasting;

	if (core_kernel_text(addr))
		return !is_kernel_inittext(addr);
	rcu_read_lock();
	mod = __module_text_address(addr);
	lasting = mod && !within_module_init(addr, mod);
	rcu_read_unlock();
	return lasting;
}

bool ferro_is_image(unsigned long addr)
{
	guard(rcu)();
	return (addr >= (unsigned long)_stext && addr < (unsigned long)_end) || __module_address(addr);
}
