/* SPDX-License-Identifier: GPL-2.0 */
/* Layout in bytes that optprobe_template.S and detour.rs share. */
#ifndef _FERROTRACE_KPROBES_DETOUR_H
#define _FERROTRACE_KPROBES_DETOUR_H

/*
 * Distance by which registers are moved down, to make room for the words that a handler has pushed.
 */
#define FERRO_DETOUR_AWAY	512
/*
 * Offsets in a point of the probe that a detour calls: before the instruction only, or also after
 * it.
 */
#define FERRO_POINT_SINGLE	0
#define FERRO_POINT_SINGLE_POST	8
/* Offsets in struct kprobe. */
#define FERRO_KPROBE_PRE	64
#define FERRO_KPROBE_POST	72
/* Offset in struct context_tracking, and the bit in the state there. */
#ifdef CONFIG_CONTEXT_TRACKING_USER
#define FERRO_CONTEXT_STATE	8
#else
#define FERRO_CONTEXT_STATE	0
#endif
#define FERRO_RCU_WATCHING	4

#ifndef __ASSEMBLER__
#include <linux/types.h>

struct kprobe;
struct pt_regs;

/*
 * Stands for the probe of a point that does not have exactly one, enabled: the handlers call those
 * of all probes. In engine.c.
 */
extern struct kprobe ferro_kprobe_walk, ferro_kprobe_walk_posting;
/* optprobe_template.S */
int ferro_kprobe_walk_before(struct kprobe *p, struct pt_regs *regs);
int ferro_kprobe_walk_around(struct kprobe *p, struct pt_regs *regs);
void ferro_kprobe_walk_after(struct kprobe *p, struct pt_regs *regs, unsigned long flags);

/* Returns true if handlers have to be called with RFLAGS.AC clear. In engine.c. */
bool ferro_kprobe_has_smap(void);
/* Returns the number of bits of an address that count, 48 or 57. In engine.c. */
u8 ferro_kprobe_address_bits(void);
/* Calls ferro_kprobes_optimize() soon, in a work item. In engine.c. Context: process. */
void ferro_kprobes_optimize_soon(void);
/* Calls ferro_kprobes_optimize() a second later, in a work item. In engine.c. */
void ferro_kprobes_optimize_later(void);
/*
 * Calls ferro_kprobes_unoptimize_idle() soon, in another work item. In engine.c. Context: process.
 */
void ferro_kprobes_unoptimize_idle_soon(void);
/* Prevents the removal of the module. In engine.c. */
void ferro_kprobes_keep(void);
/* Cancels both work items, and waits until neither runs. In engine.c. Context: process. */
void ferro_kprobes_optimize_cancel(void);
/* Adds the sysctl that switches jump optimization. Returns 0 or a negative errno. In engine.c. */
int ferro_kprobes_sysctl_add(void);
void ferro_kprobes_sysctl_remove(void);

/* exports.rs. Context: process. */
void ferro_kprobes_optimize(void);
void ferro_kprobes_unoptimize_idle(void);
bool ferro_kprobes_is_optimizing(void);
void ferro_kprobes_set_optimizing(bool on);
#endif

#endif /* _FERROTRACE_KPROBES_DETOUR_H */
