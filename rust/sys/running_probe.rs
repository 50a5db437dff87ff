// SPDX-License-Identifier: GPL-2.0

//! Which probe's handlers run on this CPU: `kprobe_running()` of `<linux/kprobes.h>`.
//!
//! Contexts: any in which the CPU is not left, NMI included.

use kernel::bindings;

use crate::cpu::percpu::this_cpu;
use crate::kprobe::Kprobe;

extern "C" {
    /// `<linux/kprobes.h>`; in `kprobes/builtin.c`.
    static mut current_kprobe: *mut bindings::kprobe;
    /// `kprobes/builtin.c`
    static mut ferro_kprobe_saved_if: usize;
    /// `kprobes/builtin.c`
    static mut ferro_kprobe_busy: bindings::kprobe;
}

/// Instead of a probe's: something runs meanwhile that is no probe's. Then, too, what is hit is missed.
///
/// It is the address of a `struct kprobe` that has no handlers, for `kprobe_running()`.
#[inline(always)]
pub fn other() -> usize {
    (&raw mut ferro_kprobe_busy) as usize
}

/// Whether a handler runs, or C code has said so with `kprobe_busy_begin()`.
#[inline(always)]
pub fn is_running() -> bool {
    this_cpu!(load current_kprobe) != 0
}

/// The probe whose handler runs, for comparing; 0 if none does.
#[inline(always)]
pub fn get() -> usize {
    this_cpu!(load current_kprobe)
}

/// The probe whose handler runs, if one does.
pub fn current() -> Option<Kprobe> {
    // SAFETY: `set()` is called with probes that stay registered while they run, or with `other()`, which has no handlers. If
    // the kernel has died in a handler, `builtin.c` has put 0 there.
    unsafe { Kprobe::new(core::ptr::with_exposed_provenance_mut(get())) }
}

/// Says that this probe's handlers run; 0 if none do.
#[inline(always)]
pub fn set(probe: usize) {
    this_cpu!(store current_kprobe, probe);
}

/// Keeps a word while the copy of an instruction runs.
#[inline(always)]
pub fn save_if(flags: usize) {
    this_cpu!(store ferro_kprobe_saved_if, flags);
}

/// The word that was kept.
#[inline(always)]
pub fn saved_if() -> usize {
    this_cpu!(load ferro_kprobe_saved_if)
}
