/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the C and the Rust of the safe relay API share.
 */
#ifndef _FERROTRACE_RELAY_API_BINDINGS_H
#define _FERROTRACE_RELAY_API_BINDINGS_H

struct module;
struct mutex;

/* For the list of what clients have open. */
extern struct mutex relay_api_mutex;

/* Has relay_api_module_going() of raw/listener.rs called with each module that goes. */
int relay_api_watch_modules(void);
void relay_api_unwatch_modules(void);
void relay_api_module_going(struct module *module);

#endif /* _FERROTRACE_RELAY_API_BINDINGS_H */
