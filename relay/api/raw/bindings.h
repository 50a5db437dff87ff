/* SPDX-License-Identifier: GPL-2.0 */
/* Declarations that the C and the Rust of the safe relay API share. */
#ifndef _FERROTRACE_RELAY_API_BINDINGS_H
#define _FERROTRACE_RELAY_API_BINDINGS_H

struct module;
struct mutex;

/* Protects the list of clients' objects. */
extern struct mutex relay_api_mutex;

/*
 * Register and unregister a notifier that calls relay_api_module_going() of raw/module_notifier.rs
 * for each module that is unloaded.
 */
int relay_api_watch_modules(void);
void relay_api_unwatch_modules(void);
void relay_api_module_going(struct module *module);

#endif /* _FERROTRACE_RELAY_API_BINDINGS_H */
