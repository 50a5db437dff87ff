// SPDX-License-Identifier: GPL-2.0

//! Which probe's handlers run on this CPU: the words of `builtin.c`, of which the kernel reads the first as
//! `kprobe_running()`.
//!
//! Contexts: any in which the CPU is not left, NMI included.

use ferro_sys::this_cpu;
use kernel::bindings;

extern "C" {
    /// `<linux/kprobes.h>`; in `builtin.c`.
    static mut current_kprobe: *mut bindings::kprobe;
    /// `builtin.c`
    static mut ferro_kprobe_saved_if: usize;
    /// `builtin.c`
    static mut ferro_kprobe_busy: bindings::kprobe;
}

/// What runs instead of a probe's handlers when what is hit has to be missed all the same: the address of a `struct kprobe`
/// that has no handlers, and always stays.
#[inline(always)]
pub fn busy() -> usize {
    (&raw mut ferro_kprobe_busy) as usize
}

/// The address of the probe whose handlers run, or [`busy`], or 0 if none do.
#[inline(always)]
pub fn get() -> usize {
    // SAFETY: A per-CPU pointer, which only this CPU accesses, in single instructions. A caller that leaves the CPU gets what
    // is true of none, but no address that was never there.
    unsafe { this_cpu!(load current_kprobe) }
}

/// Says whose handlers run.
///
/// # Safety
///
/// `probe` is 0, [`busy`], or the address of a `struct kprobe` that stays until this CPU is told something else. The caller
/// stays on this CPU until then; what nests puts back what it has found.
#[inline(always)]
pub unsafe fn set(probe: usize) {
    // SAFETY: A per-CPU pointer, which only this CPU accesses, in single instructions; by the caller's guarantee to a `struct
    // kprobe`, or NULL.
    unsafe { this_cpu!(store current_kprobe, probe) };
}

/// Says that no handlers run.
#[inline(always)]
pub fn clear() {
    // SAFETY: A per-CPU pointer, which only this CPU accesses, in single instructions; NULL is none.
    unsafe { this_cpu!(clear current_kprobe) };
}

/// Keeps RFLAGS.IF of what was interrupted while the copy of an instruction runs, which nothing interrupts that would keep it,
/// too.
///
/// The caller stays on this CPU.
#[inline(always)]
pub fn save_if(flag: usize) {
    // SAFETY: A per-CPU word, which only this CPU accesses, in single instructions; it may have any value.
    unsafe { this_cpu!(store ferro_kprobe_saved_if, flag) };
}

/// What was kept.
#[inline(always)]
pub fn saved_if() -> usize {
    // SAFETY: A per-CPU word, which only this CPU accesses, in single instructions.
    unsafe { this_cpu!(load ferro_kprobe_saved_if) }
}
