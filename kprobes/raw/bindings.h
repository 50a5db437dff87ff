/* SPDX-License-Identifier: GPL-2.0 */
/*
 * C declarations for the kprobes engine, its part in the image and jprobes, in addition to
 * rust/sys/bindings.h.
 */
#ifndef _FERROTRACE_KPROBES_BINDINGS_H
#define _FERROTRACE_KPROBES_BINDINGS_H

#include <linux/jprobes.h>
#include <linux/kprobes.h>
#include <linux/kprobes_fault.h>
#include <linux/rethook.h>
#include <linux/sched.h>
#include <linux/stddef.h>

#include "../builtin/blacklist.h"
#include "../builtin/builtin.h"
#include "../jprobe/raw/frame.h"
#include "engine.h"

#ifdef CONFIG_RETHOOK
/* bindgen may misplace fields after an empty structure: see rust/sys/bindings.h. */
enum {
	FERRO_OFFSET_task_struct_rethooks = offsetof(struct task_struct, rethooks),
};
#endif

#endif /* _FERROTRACE_KPROBES_BINDINGS_H */
