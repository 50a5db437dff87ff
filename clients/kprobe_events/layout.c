// SPDX-License-Identifier: GPL-2.0
/* Checks the header's structures against the offsets in record.rs and totals.rs. */
#include <linux/build_bug.h>
#include <linux/stddef.h>
#include <linux/ferrotrace_kprobe_events.h>

static_assert(sizeof(struct ferrotrace_probe_hit) == 48);
static_assert(offsetof(struct ferrotrace_probe_hit, comm) == 8);
static_assert(offsetof(struct ferrotrace_probe_hit, probe) == 24);
static_assert(offsetof(struct ferrotrace_probe_hit, kind) == 28);
static_assert(offsetof(struct ferrotrace_probe_hit, ip) == 32);
static_assert(offsetof(struct ferrotrace_probe_hit, duration) == 40);
static_assert(sizeof(struct ferrotrace_probe_record) == 184);
static_assert(offsetof(struct ferrotrace_probe_record, ax) == 48);
static_assert(offsetof(struct ferrotrace_probe_record, sp) == 104);
static_assert(offsetof(struct ferrotrace_probe_record, flags) == 176);
static_assert(sizeof(struct ferrotrace_probe_totals) == 16);
static_assert(sizeof(struct ferrotrace_probe_total) == 48);
static_assert(offsetof(struct ferrotrace_probe_total, classes) == 6);
