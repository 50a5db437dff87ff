/* SPDX-License-Identifier: GPL-2.0 */
/* Declarations that the C and the Rust of the safe relay API share. */
#ifndef _FERROTRACE_RELAY_API_BINDINGS_H
#define _FERROTRACE_RELAY_API_BINDINGS_H

struct mutex;

/* Protects the list of clients' objects. */
extern struct mutex relay_api_mutex;

#endif /* _FERROTRACE_RELAY_API_BINDINGS_H */
