// SPDX-License-Identifier: GPL-2.0
/* In place of rust/sys/hook/image.c: hooks, and their sites, are in modules only. */
#include <linux/gkhi_points.h>
#include <linux/jump_label.h>
#include <linux/module.h>
#include <linux/rcupdate.h>

#include "../rust/sys/hook/hook.h"
#include "core.h"

/* Nothing but fprobes, which cost time, fires uprobe_done. */
void ferro_hook_activate(struct gkhook *hook, bool active)
{
	if (hook == GKHOOK(uprobe_done))
		ferro_stock_uprobe_done(active);
	if (active)
		static_key_enable(&hook->key.key);
	else
		static_key_disable(&hook->key.key);
}

/* The tables of other modules' sites are unknown. */
int ferro_hook_sites(const struct gkhook *hook)
{
	return -1;
}

bool ferro_is_lasting_text(unsigned long addr)
{
	const struct module *mod;

	if (ferro_stock_is_image_text(addr))
		return true;
	guard(rcu)();
	mod = __module_text_address(addr);
	return mod && !within_module_init(addr, mod);
}

bool ferro_is_image(unsigned long addr)
{
	return is_module_address(addr);
}
