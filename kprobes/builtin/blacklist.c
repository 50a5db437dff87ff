// SPDX-License-Identifier: GPL-2.0
/*
 * C half of raw/blacklist.rs: the kernel's and the modules' own lists, and the unloading of
 * modules.
 */
#include <linux/init.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/notifier.h>
#include <linux/rculist.h>
#include <linux/rcupdate.h>
#include <asm/sections.h>

#include "../../rust/sys/hook/hook.h"
#include "blacklist.h"

/* Protects the list of added areas against other writers. */
DEFINE_MUTEX(ferro_blacklist_lock);

struct module *ferro_text_module(unsigned long addr)
{
	return __module_text_address(addr);
}

unsigned long ferro_module_text(const struct module *mod)
{
	return (unsigned long)mod->mem[MOD_TEXT].base;
}

void ferro_kernel_forbidden(struct ferro_forbidden *forbidden)
{
	*forbidden = (struct ferro_forbidden) {
		.kprobes_text.start = (unsigned long)__kprobes_text_start,
		.kprobes_text.end = (unsigned long)__kprobes_text_end,
		.noinstr_text.start = (unsigned long)__noinstr_text_start,
		.noinstr_text.end = (unsigned long)__noinstr_text_end,
		.entry_text.start = (unsigned long)__entry_text_start,
		.entry_text.end = (unsigned long)__entry_text_end,
		.functions = __start_kprobe_blacklist,
		.count = __stop_kprobe_blacklist - __start_kprobe_blacklist,
	};
}

void ferro_module_forbidden(const struct module *mod, struct ferro_forbidden *forbidden)
{
	unsigned long kprobes_text = (unsigned long)mod->kprobes_text_start;
	unsigned long noinstr_text = (unsigned long)mod->noinstr_text_start;

	*forbidden = (struct ferro_forbidden) {
		.kprobes_text = { kprobes_text, kprobes_text + mod->kprobes_text_size },
		.noinstr_text = { noinstr_text, noinstr_text + mod->noinstr_text_size },
		.functions = mod->kprobe_blacklist,
		.count = mod->num_kprobe_blacklist,
	};
}

struct module *ferro_next_module(unsigned long addr)
{
	struct module *mod, *next = NULL;
	unsigned long base, lowest = ULONG_MAX;

	list_for_each_entry_rcu(mod, &modules, list) {
		base = ferro_module_text(mod);
		if (mod->state == MODULE_STATE_UNFORMED || base <= addr || base >= lowest)
			continue;
		lowest = base;
		next = mod;
	}
	return next;
}

/*
 * Engines refuse to probe unloading code by its module's state, and drop existing probes in their
 * own notifiers.
 */
static int module_event(struct notifier_block *nb, unsigned long state, void *data)
{
	if (state == MODULE_STATE_LIVE || state == MODULE_STATE_GOING)
		ferro_blacklist_module_goes(data, state == MODULE_STATE_GOING);
	return NOTIFY_OK;
}

static struct notifier_block module_notifier = {
	.notifier_call = module_event,
	.priority = INT_MAX,
};

static int __init blacklist_init(void)
{
	ferro_blacklist_init();
	return register_module_notifier(&module_notifier);
}
early_initcall(blacklist_init);
