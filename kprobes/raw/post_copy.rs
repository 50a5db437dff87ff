// SPDX-License-Identifier: GPL-2.0

//! The call target of instruction copies, `post_trampoline.S`, and CPU features that affect copies.
//!
//! Contexts: any.

use kernel::bindings;

extern "C" {
    /// `post_trampoline.S`
    fn ferro_kprobe_after();
}

/// Returns the address that a copy calls when it has run, or `None` if copies have to stop at a
/// breakpoint on this CPU.
pub(crate) fn address() -> Option<usize> {
    // SAFETY: The function only reads a parameter of the module and features of the CPU.
    let must_stop = unsafe { bindings::ferro_kprobe_must_stop() };
    (!must_stop).then_some(ferro_kprobe_after as *const () as usize)
}

/// Returns true if a CPU may return from a breakpoint to a copy without serialising, and execute
/// the slot's earlier contents.
pub(crate) fn returns_early() -> bool {
    // SAFETY: The function only reads a parameter of the module and a feature of the CPU.
    unsafe { bindings::ferro_kprobe_returns_early() }
}
