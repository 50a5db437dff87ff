// SPDX-License-Identifier: GPL-2.0
/* Checks the header's record against the offsets in record.rs. */
#include <linux/build_bug.h>
#include <linux/stddef.h>
#include <linux/ferrotrace_ftrace_functions.h>

static_assert(sizeof(struct ferrotrace_function_record) == 24);
static_assert(offsetof(struct ferrotrace_function_record, duration) == 8);
static_assert(offsetof(struct ferrotrace_function_record, pid) == 16);
static_assert(offsetof(struct ferrotrace_function_record, cpu) == 20);
