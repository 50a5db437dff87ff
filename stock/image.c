// SPDX-License-Identifier: GPL-2.0
/* Replaces rust/sys/hook/image.c. Without our patches, only modules contain hooks and sites. */
#include <linux/gkhi_points.h>
#include <linux/jump_label.h>
#include <linux/module.h>
#include <linux/rcupdate.h>

#include "../rust/sys/hook/hook.h"
#include "core.h"

/* The fprobes that fire uprobe_done slow down every uprobe: attached only while the hook is active. */
void ferro_hook_activate(struct gkhook *hook, bool active)
{
	if (hook == GKHOOK(uprobe_done))
		ferro_stock_uprobe_done(active);
	if (active)
		static_key_enable(&hook->key.key);
	else
		static_key_disable(&hook->key.key);
}

/* Sites are not counted on this kernel. */
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
