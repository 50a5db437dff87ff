/* SPDX-License-Identifier: GPL-2.0 */
/* Declarations for the trampoline engine. */
#ifndef _FERROTRACE_TRAMP_BINDINGS_H
#define _FERROTRACE_TRAMP_BINDINGS_H

#include <linux/ferrotrace_ftrace.h>
#include <linux/ftrace.h>

#include "../builtin/builtin.h"

#ifdef CONFIG_FTRACE_TRAMP_BUILTIN
enum {
	FERRO_OFFSET_ftrace_ops_flags = offsetof(struct ftrace_ops, flags),
	FERRO_OFFSET_ftrace_ops_trampoline = offsetof(struct ftrace_ops, trampoline),
	FERRO_OFFSET_ftrace_ops_trampoline_size = offsetof(struct ftrace_ops, trampoline_size),
};
#endif

#endif /* _FERROTRACE_TRAMP_BINDINGS_H */
