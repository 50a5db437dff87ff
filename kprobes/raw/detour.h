/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What detoured.S and detour.rs agree on, in bytes.
 */
#ifndef _FERROTRACE_KPROBES_DETOUR_H
#define _FERROTRACE_KPROBES_DETOUR_H

/* How far in front of the return address of a detour's call its point is. */
#define FERRO_DETOUR_POINT	37
/* How far registers are moved down to make room for what a handler has pushed. */
#define FERRO_DETOUR_AWAY	512

#ifndef __ASSEMBLER__
#include <linux/types.h>

/* engine.c: whether handlers have to be called with RFLAGS.AC clear. */
bool ferro_kprobe_has_smap(void);
/* engine.c: call ferro_kprobes_optimise() soon, in a work item. Context: process. */
void ferro_kprobes_optimise_soon(void);
/* engine.c: wait until it is not called any more. Context: process. */
void ferro_kprobes_optimise_cancel(void);
/* engine.c: the file that says whether jumps are wanted. 0 or a negative errno. */
int ferro_kprobes_sysctl_add(void);
void ferro_kprobes_sysctl_remove(void);

/* exports.rs. Context: process. */
void ferro_kprobes_optimise(void);
bool ferro_kprobes_wants_jumps(void);
void ferro_kprobes_want_jumps(bool on);
#endif

#endif /* _FERROTRACE_KPROBES_DETOUR_H */
