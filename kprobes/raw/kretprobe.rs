// SPDX-License-Identifier: GPL-2.0

//! The probe at the entry of a kretprobe.
//!
//! Contexts: [`entered`] any, NMI included; the rest process.

use ferro_sys::kprobe::Kprobe;
use ferro_sys::kretprobe::Kretprobe;
use ferro_sys::regs::Regs;
use kernel::bindings;
use kernel::ffi::c_int;

/// Whether a probe is the one at the entry of a kretprobe.
pub(crate) fn is_kretprobe(probe: Kprobe) -> bool {
    probe.has_pre(Some(entered))
}

/// The kretprobe whose entry a probe is at, if it is one.
pub(crate) fn kretprobe_of(probe: Kprobe) -> Option<Kretprobe> {
    if !is_kretprobe(probe) {
        return None;
    }
    let kretprobe = core::ptr::with_exposed_provenance_mut(probe.id());
    // SAFETY: It begins with its probe, and is there as long as that.
    unsafe { Kretprobe::new(kretprobe) }
}

/// The addresses of what a client has to keep for a probe: the structure and its handlers, or 0.
pub(crate) fn parts_of(probe: Kprobe) -> [usize; 6] {
    let [pre, post] = probe.handlers();
    let [entry, returned] = kretprobe_of(probe).map_or([0; 2], Kretprobe::handlers);
    let fault = probe.fault_handler().map_or(0, |f| f as usize);
    [probe.id(), pre, post, fault, entry, returned]
}

/// Makes a kretprobe's probe the one at its entry.
pub(crate) fn set_entry_handler(kretprobe: Kretprobe) {
    kretprobe.probe().set_handlers(Some(entered), None);
}

/// The handler at the entry of kretprobes.
///
/// # Safety
///
/// `kprobe` begins a kretprobe that is registered; `regs` are those of a probe.
#[link_section = ".kprobes.text"]
unsafe extern "C" fn entered(kprobe: *mut bindings::kprobe, regs: *mut bindings::pt_regs) -> c_int {
    const { assert!(core::mem::offset_of!(bindings::kretprobe, kp) == 0) };
    // SAFETY: By the rules of this function.
    let parts = unsafe { (Kretprobe::new(kprobe.cast()), Regs::of(regs)) };
    if let (Some(kretprobe), Some(regs)) = parts {
        kretprobe.enter(regs);
    }
    0
}
