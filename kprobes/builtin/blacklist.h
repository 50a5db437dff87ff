/* SPDX-License-Identifier: GPL-2.0 */
/* For raw/blacklist.rs and exports.rs: code that must not be probed. */
#ifndef _FERROTRACE_KPROBES_BLACKLIST_H
#define _FERROTRACE_KPROBES_BLACKLIST_H

#include <linux/mutex.h>
#include <linux/types.h>

struct module;

/* Area of code that must not be probed. */
struct ferro_area {
	unsigned long start;
	unsigned long end;
};

/* The kernel's or a module's own blacklist: areas and single functions. */
struct ferro_forbidden {
	struct ferro_area kprobes_text;
	struct ferro_area noinstr_text;
	struct ferro_area entry_text;
	const unsigned long *functions;
	size_t count;
};

/*
 * Returns the kernel's blacklist. Its @functions are valid until the kernel frees its init memory.
 */
void ferro_kernel_forbidden(struct ferro_forbidden *forbidden);
/* Returns a module's blacklist. Context: RCU, or with a reference to the module. */
void ferro_module_forbidden(const struct module *mod, struct ferro_forbidden *forbidden);
/* Returns the module with the lowest code above @addr, or NULL. Context: RCU. */
struct module *ferro_next_module(unsigned long addr);
/* Returns the module with the code at @addr, or NULL. Context: RCU. */
struct module *ferro_text_module(unsigned long addr);
/* Returns the start of a module's code. */
unsigned long ferro_module_text(const struct module *mod);

/* Protects the list of added areas against other writers. */
extern struct mutex ferro_blacklist_lock;

/* In exports.rs. Context: early initcall. */
void ferro_blacklist_init(void);
/*
 * In exports.rs: the module is being unloaded, or only its initialisation code. Context: the module
 * notifier.
 */
void ferro_blacklist_module_goes(struct module *mod, bool is_whole);

#endif /* _FERROTRACE_KPROBES_BLACKLIST_H */
