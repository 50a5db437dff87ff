// SPDX-License-Identifier: GPL-2.0

//! The probe at the entry of a kretprobe.
//!
//! Contexts: [`entered`] any, NMI included; the rest process.

use ferro_kprobes_builtin::raw::kretprobe::Kretprobe;
use ferro_sys::code::regs::Regs;
use kernel::bindings;
use kernel::ffi::c_int;

use super::kprobe::Kprobe;

/// Whether a probe is the one at the entry of a kretprobe.
pub(crate) fn is_kretprobe(probe: Kprobe<'_>) -> bool {
    probe.has_pre(Some(entered))
}

/// The kretprobe whose entry a probe is at, if it is one.
pub(crate) fn kretprobe_of(probe: Kprobe<'_>) -> Option<Kretprobe<'_>> {
    if !is_kretprobe(probe) {
        return None;
    }
    // SAFETY: `set_entry_handler()` has given it this handler, as the first field of a kretprobe, which the client keeps as long
    // as it keeps the probe.
    unsafe { Kretprobe::new(probe.as_ptr().cast()) }
}

/// The addresses of what a client has to keep for a probe: the structure and its handlers, or 0.
pub(crate) fn parts_of(probe: Kprobe<'_>) -> [usize; 6] {
    let [pre, post] = probe.handlers();
    let [entry, returned] = kretprobe_of(probe).map_or([0; 2], Kretprobe::handlers);
    let fault = probe.fault_handler().map_or(0, |f| f as usize);
    [probe.id(), pre, post, fault, entry, returned]
}

/// The probe at the function's entry.
pub(crate) fn probe_of(kretprobe: Kretprobe<'_>) -> Kprobe<'_> {
    // SAFETY: The first field of a kretprobe, which is there as long as that, and has no handlers but `entered()`.
    unsafe { Kprobe::from_raw(kretprobe.kprobe()) }
}

/// Makes a kretprobe's probe the one at its entry.
pub(crate) fn set_entry_handler(kretprobe: Kretprobe<'_>) {
    probe_of(kretprobe).set_pre(entered);
}

/// The handler at the entry of kretprobes.
///
/// # Safety
///
/// `kprobe` begins a kretprobe that is registered; `regs` are those of a probe at its address, as the engine calls handlers:
/// with preemption off.
#[link_section = ".kprobes.text"]
unsafe extern "C" fn entered(kprobe: *mut bindings::kprobe, regs: *mut bindings::pt_regs) -> c_int {
    // SAFETY: The caller guarantees that it is the first field of a kretprobe, which stays while it is in the handler.
    let kretprobe = unsafe { Kretprobe::new(kprobe.cast()) };
    // SAFETY: The caller guarantees that they are a probe's, which are its handler's until that returns.
    let regs = unsafe { Regs::from_raw(regs) };
    if let (Some(kretprobe), Some(regs)) = (kretprobe, regs) {
        // SAFETY: The address is the entry of a function: the engine refuses others before it makes this the handler. The caller
        // guarantees that preemption is off.
        unsafe { kretprobe.enter(regs) };
    }
    0
}
