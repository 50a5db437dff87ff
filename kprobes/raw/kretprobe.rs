// SPDX-License-Identifier: GPL-2.0

//! The probe at the entry of a kretprobe.
//!
//! Contexts: [`entered`] any, NMI included; the rest process.

use ferro_kprobes_builtin::raw::kretprobe::Kretprobe;
use ferro_sys::bindings;
use ferro_sys::code::regs::Regs;
use kernel::ffi::c_int;

use super::kprobe::Kprobe;

/// Returns true if a probe is at the entry of a kretprobe.
pub(crate) fn is_kretprobe(probe: Kprobe<'_>) -> bool {
    probe.has_pre(Some(entered))
}

/// Returns the kretprobe of a probe at its entry.
pub(crate) fn kretprobe_of(probe: Kprobe<'_>) -> Option<Kretprobe<'_>> {
    if !is_kretprobe(probe) {
        return None;
    }
    // SAFETY: `set_entry_handler()` has given it this handler, as the first field of a kretprobe,
    // which the client keeps as long as it keeps the probe.
    unsafe { Kretprobe::new(probe.as_ptr().cast()) }
}

/// Returns the addresses that a client has to keep valid for a probe: the structure and its
/// handlers, or 0.
pub(crate) fn client_addresses(probe: Kprobe<'_>) -> [usize; 6] {
    let [pre, post] = probe.handlers();
    let [entry, returned] = kretprobe_of(probe).map_or([0; 2], Kretprobe::handlers);
    let fault = probe.fault_handler().map_or(0, |f| f as usize);
    [probe.id(), pre, post, fault, entry, returned]
}

/// Returns the probe at the function's entry.
pub(crate) fn probe_of(kretprobe: Kretprobe<'_>) -> Kprobe<'_> {
    // SAFETY: The first field of a kretprobe, which is there as long as the kretprobe, and has no
    // handler except `entered()`.
    unsafe { Kprobe::from_raw(kretprobe.kprobe()) }
}

/// Sets the handler of a kretprobe's probe.
pub(crate) fn set_entry_handler(kretprobe: Kretprobe<'_>) {
    probe_of(kretprobe).set_pre(entered);
}

/// Handles hits at the entry of kretprobes.
///
/// # Safety
///
/// `kprobe` begins a kretprobe that is registered; `regs` are the registers of a hit at its
/// address, as the engine calls handlers: with preemption off.
#[link_section = ".kprobes.text"]
unsafe extern "C" fn entered(kprobe: *mut bindings::kprobe, regs: *mut bindings::pt_regs) -> c_int {
    // SAFETY: The caller guarantees that it is the first field of a kretprobe, which stays while
    // its handler is running.
    let kretprobe = unsafe { Kretprobe::new(kprobe.cast()) };
    // SAFETY: The caller guarantees the registers of a hit, which belong to the handler until it
    // returns.
    let regs = unsafe { Regs::from_raw(regs) };
    if let (Some(kretprobe), Some(regs)) = (kretprobe, regs) {
        // SAFETY: The address is the entry of a function: the engine refuses others before it sets
        // this handler. The caller guarantees that preemption is off.
        unsafe { kretprobe.enter(regs) };
    }
    0
}
