// SPDX-License-Identifier: GPL-2.0

//! Probe with running handlers on this CPU: the words of `builtin.c`, the first being the kernel's
//! `kprobe_running()`.
//!
//! Contexts: any that cannot change the CPU, NMI included.

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

/// Returns the value that makes hits count as missed without running handlers: the address of a
/// `struct kprobe` without handlers that is never freed.
#[inline(always)]
pub fn busy() -> usize {
    (&raw mut ferro_kprobe_busy) as usize
}

/// Returns the address of the probe with running handlers, or [`busy`], or 0 without one.
#[inline(always)]
pub fn get() -> usize {
    // SAFETY: A per-CPU pointer, which only this CPU accesses, in single instructions. A caller
    // that migrates gets a stale value, but always one that was stored.
    unsafe { this_cpu!(load current_kprobe) }
}

/// Sets the probe with running handlers.
///
/// # Safety
///
/// `probe` is 0, [`busy`], or the address of a `struct kprobe` that stays until this CPU's value
/// changes. The caller stays on this CPU until then; nested callers restore the value that they
/// have found.
#[inline(always)]
pub unsafe fn set(probe: usize) {
    // SAFETY: A per-CPU pointer, which only this CPU accesses, in single instructions; by the
    // caller's guarantee to a `struct kprobe`, or NULL.
    unsafe { this_cpu!(store current_kprobe, probe) };
}

/// Records that no handlers run.
#[inline(always)]
pub fn clear() {
    // SAFETY: A per-CPU pointer, which only this CPU accesses, in single instructions; NULL means
    // none.
    unsafe { this_cpu!(clear current_kprobe) };
}

/// Saves RFLAGS.IF of the interrupted code while the copy of an instruction runs. No other code
/// that saves it can interrupt the copy.
///
/// The caller stays on this CPU.
#[inline(always)]
pub fn save_if(flag: usize) {
    // SAFETY: A per-CPU word, which only this CPU accesses, in single instructions; it may have any
    // value.
    unsafe { this_cpu!(store ferro_kprobe_saved_if, flag) };
}

/// Returns the saved RFLAGS.IF.
#[inline(always)]
pub fn saved_if() -> usize {
    // SAFETY: A per-CPU word, which only this CPU accesses, in single instructions.
    unsafe { this_cpu!(load ferro_kprobe_saved_if) }
}
