/* SPDX-License-Identifier: GPL-2.0 */
/* Declarations that the C and the Rust of the safe kprobes API share. */
#ifndef _FERROTRACE_KPROBES_API_BINDINGS_H
#define _FERROTRACE_KPROBES_API_BINDINGS_H

struct mutex;

/* Protects the list of leaked_probes.rs. */
extern struct mutex kprobe_api_mutex;

#endif /* _FERROTRACE_KPROBES_API_BINDINGS_H */
