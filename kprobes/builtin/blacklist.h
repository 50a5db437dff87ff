/* SPDX-License-Identifier: GPL-2.0 */
/*
 * For raw/blacklist.rs and exports.rs: what must not be probed.
 */
#ifndef _FERROTRACE_KPROBES_BLACKLIST_H
#define _FERROTRACE_KPROBES_BLACKLIST_H

#include <linux/mutex.h>
#include <linux/types.h>

struct module;

/* An area in which nothing may be probed. */
struct ferro_area {
	unsigned long start;
	unsigned long end;
};

/* What the kernel or a module forbids to probe: two areas and single functions. */
struct ferro_forbidden {
	struct ferro_area kprobes_text;
	struct ferro_area noinstr_text;
	struct ferro_area entry_text;
	const unsigned long *functions;
	size_t count;
};

/* Of the kernel. Its @functions are there until it frees its init memory. */
void ferro_kernel_forbidden(struct ferro_forbidden *forbidden);
/* Of a module. Context: RCU, or with a reference to the module. */
void ferro_module_forbidden(const struct module *mod, struct ferro_forbidden *forbidden);
/* The module with the lowest code above @addr, or NULL. Context: RCU. */
struct module *ferro_next_module(unsigned long addr);
/* The module whose code @addr is in; NULL if it is none. Context: RCU. */
struct module *ferro_text_module(unsigned long addr);
/* Where its code begins. */
unsigned long ferro_module_text(const struct module *mod);

/* For those who change what was added. */
extern struct mutex ferro_blacklist_lock;

/* exports.rs. Context: early initcall. */
void ferro_blacklist_init(void);
/* exports.rs: the module goes, or only its initialisation code. Context: the module notifier. */
void ferro_blacklist_module_goes(struct module *mod, bool is_whole);

#endif /* _FERROTRACE_KPROBES_BLACKLIST_H */
