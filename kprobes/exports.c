// SPDX-License-Identifier: GPL-2.0
/*
 * What the Rust kprobes engine needs C for: exporting the functions that it defines, and a mutex that is
 * ready at boot.
 */
#include <linux/export.h>
#include <linux/kprobes.h>
#include <linux/kprobes_fault.h>
#include <linux/mutex.h>

extern struct mutex kprobes_rust_mutex;
DEFINE_MUTEX(kprobes_rust_mutex);

EXPORT_SYMBOL_GPL(register_kprobe);
EXPORT_SYMBOL_GPL(register_kprobe_fault);
EXPORT_SYMBOL_GPL(unregister_kprobe);
EXPORT_SYMBOL_GPL(register_kprobes);
EXPORT_SYMBOL_GPL(unregister_kprobes);
EXPORT_SYMBOL_GPL(enable_kprobe);
EXPORT_SYMBOL_GPL(disable_kprobe);
EXPORT_SYMBOL_GPL(register_kretprobe);
EXPORT_SYMBOL_GPL(unregister_kretprobe);
EXPORT_SYMBOL_GPL(register_kretprobes);
EXPORT_SYMBOL_GPL(unregister_kretprobes);
