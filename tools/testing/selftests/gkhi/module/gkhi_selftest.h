/* SPDX-License-Identifier: GPL-2.0 */
/*
 * gkhi_selftest: hooks and exits of its own, and cases that run in here; driven through debugfs gkhi_selftest/.
 */
#ifndef _GKHI_SELFTEST_H
#define _GKHI_SELFTEST_H

#include <linux/gkhi.h>
#include <linux/seq_file.h>
#include <linux/types.h>

#include "cases.h"

/* hooks.c: places of every form. */
DECLARE_GKHOOK(gst_zero, 0, GKH_RO);
DECLARE_GKHOOK(gst_ro, 3, GKH_RO);
DECLARE_GKHOOK(gst_rw, 2, GKH_RW);
DECLARE_GKHOOK(gst_ret, 1, GKH_RO_RET);
DECLARE_GKHOOK(gst_rw_ret, 1, GKH_RW_RET);
DECLARE_GKHOOK(gst_sleep, 1, GKH_RO);
DECLARE_GKHOOK(gst_no_stop, 0, GKH_RO);
DECLARE_GKHOOK(gst_exclusive, 0, GKH_RO);
/* Fired with preemption off, or in an NMI. */
DECLARE_GKHOOK(gst_a, 1, GKH_RO);
DECLARE_GKHOOK(gst_b, 1, GKH_RO);
/* The same, fired where preemption is on. */
DECLARE_GKHOOK(gst_task_a, 1, GKH_RO);
DECLARE_GKHOOK(gst_task_b, 1, GKH_RO);

int gst_hooks_init(void);
void gst_hooks_exit(void);
struct gkhook *gst_hook(const char *name);
/* Passes a place of the hook once. */
int gst_fire(const char *name, long *answer);

/* pool.c: exits that are registered by commands. */
int gst_command(char *text);
void gst_trace_show(struct seq_file *m);
void gst_pool_exit(void);

/* points.c: counters of the hook points, on and off. */
int gst_points_command(const char *what);
void gst_points_show(struct seq_file *m);

/* run.c: on CPUs and in contexts of choice. */
struct gst_crew;
/* A thread on each online CPU that calls @fn until the crew is dismissed; it must not take long. */
struct gst_crew *gst_hire(void (*fn)(void *arg), void *arg);
void gst_dismiss(struct gst_crew *crew);
/* @fn once on each online CPU, at the same time as nearly as can be. */
int gst_at_once(void (*fn)(void *arg), void *arg);
/* @fn in NMIs on all online CPUs, one after the other, until gst_nmi_stop(). */
int gst_nmi_start(void (*fn)(void));
void gst_nmi_stop(void);
/* Until @fn has begun and ended on each CPU since the call. */
bool gst_nmi_everywhere(void);
/* Until @done says so; false when it never does. */
bool gst_wait(bool (*done)(void *arg), void *arg);
int gst_run_init(void);
void gst_run_exit(void);

/* Rounds of churn.rounds on each CPU. */
extern unsigned int gst_rounds;
/* Result of registering an exit in __init code. */
extern int gst_init_text_err;

/* The cases. */
void gst_atomic_preempt_off(void);
void gst_atomic_nmi(void);
void gst_atomic_task(void);
void gst_atomic_one_by_one(void);
void gst_atomic_one_by_one_nmi(void);
void gst_atomic_section(void);
void gst_leave_race(void);
void gst_leave_stopped(void);
void gst_leave_nop(void);
void gst_leave_nmi(void);
void gst_no_sleep(void);
void gst_irqs_off(void);
void gst_cpus_stopped(void);
void gst_cannot_stop(void);
void gst_churn_nmi(void);
void gst_churn_rounds(void);
void gst_point_int3(void);
void gst_point_debug(void);
void gst_point_page_fault(void);
void gst_point_protection(void);
void gst_point_trampoline(void);

/* Refusals, which change nothing. */
extern const struct test_case gst_refusals[];

#endif
