/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What optprobe_template.S and detour.rs agree on, in bytes.
 */
#ifndef _FERROTRACE_KPROBES_DETOUR_H
#define _FERROTRACE_KPROBES_DETOUR_H

/* How far registers are moved down to make room for what a handler has pushed. */
#define FERRO_DETOUR_AWAY	512
/* Where a point has the probe whose handlers a detour calls: the one before the instruction, or both. */
#define FERRO_POINT_BEFORE	0
#define FERRO_POINT_AROUND	8
/* In struct kprobe. */
#define FERRO_KPROBE_PRE	64
#define FERRO_KPROBE_POST	72
/* In struct context_tracking, and in the state that is there. */
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

/* engine.c: what points have in place of a probe if that is not their only one. Their handlers call those of all probes. */
extern struct kprobe ferro_kprobe_walk, ferro_kprobe_walk_posting;
/* optprobe_template.S */
int ferro_kprobe_walk_before(struct kprobe *p, struct pt_regs *regs);
int ferro_kprobe_walk_around(struct kprobe *p, struct pt_regs *regs);
void ferro_kprobe_walk_after(struct kprobe *p, struct pt_regs *regs, unsigned long flags);

/* engine.c: whether handlers have to be called with RFLAGS.AC clear. */
bool ferro_kprobe_has_smap(void);
/* engine.c: how many bits of an address count, 48 or 57. */
u8 ferro_kprobe_address_bits(void);
/* engine.c: call ferro_kprobes_optimise() soon, in a work item. Context: process. */
void ferro_kprobes_optimise_soon(void);
/* engine.c: the same, but a second later. */
void ferro_kprobes_optimise_later(void);
/* engine.c: call ferro_kprobes_leave_idle() soon, in another work item. Context: process. */
void ferro_kprobes_leave_idle_soon(void);
/* engine.c: a module that has called this is not removed. */
void ferro_kprobes_keep(void);
/* engine.c: cancel both, and wait until neither runs. Context: process. */
void ferro_kprobes_optimise_cancel(void);
/* engine.c: the file that says whether jumps are wanted. 0 or a negative errno. */
int ferro_kprobes_sysctl_add(void);
void ferro_kprobes_sysctl_remove(void);

/* exports.rs. Context: process. */
void ferro_kprobes_optimise(void);
void ferro_kprobes_leave_idle(void);
bool ferro_kprobes_wants_jumps(void);
void ferro_kprobes_want_jumps(bool on);
#endif

#endif /* _FERROTRACE_KPROBES_DETOUR_H */
