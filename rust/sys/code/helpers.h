/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Wrappers for macros and static inline functions, which Rust cannot call. Each is named after the
 * macro or function that it wraps.
 */
#ifndef _FERROTRACE_SYS_CODE_HELPERS_H
#define _FERROTRACE_SYS_CODE_HELPERS_H

#include <linux/types.h>

struct module;

/* kernel.h: true for an address in the text of the kernel or of a module. */
bool ferro_is_text(const void *addr);

/*
 * Takes a reference to the module whose code or data contains @addr; NULL if there is none, or if
 * it is being unloaded.
 */
struct module *ferro_module_get(unsigned long addr);
void ferro_module_put(struct module *mod);
int ferro_module_state(const struct module *mod);
/* True if @addr is in a module. */
bool ferro_is_module_address(unsigned long addr);
/* True if @addr is in the module's code that is freed after initialisation. */
bool ferro_in_init_text(unsigned long addr, const struct module *mod);

#endif /* _FERROTRACE_SYS_CODE_HELPERS_H */
