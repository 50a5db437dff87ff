// SPDX-License-Identifier: GPL-2.0
/*
 * The header's record has the places that record.rs has, too.
 */
#include <linux/build_bug.h>
#include <linux/stddef.h>
#include <linux/ferrotrace_kprobe_events.h>

static_assert(sizeof(struct ferrotrace_probe_record) == 192);
static_assert(offsetof(struct ferrotrace_probe_record, comm) == 16);
static_assert(offsetof(struct ferrotrace_probe_record, probe) == 32);
static_assert(offsetof(struct ferrotrace_probe_record, kind) == 36);
static_assert(offsetof(struct ferrotrace_probe_record, ip) == 40);
static_assert(offsetof(struct ferrotrace_probe_record, duration) == 48);
static_assert(offsetof(struct ferrotrace_probe_record, ax) == 56);
static_assert(offsetof(struct ferrotrace_probe_record, sp) == 112);
static_assert(offsetof(struct ferrotrace_probe_record, flags) == 184);
