// SPDX-License-Identifier: GPL-2.0

//! Where the second copy of an instruction calls: `post_trampoline.S`; and what there is to know before a breakpoint leads to copies.
//!
//! Contexts: any.

use kernel::bindings;

extern "C" {
    /// `post_trampoline.S`
    fn ferro_kprobe_after();
}

/// Where a copy calls when it has run; `None` if the CPU is one on which it has to stop at a breakpoint.
pub(crate) fn address() -> Option<usize> {
    // SAFETY: The function only reads a parameter of the module and features of the CPU.
    let must_stop = unsafe { bindings::ferro_kprobe_must_stop() };
    (!must_stop).then_some(ferro_kprobe_after as *const () as usize)
}

/// Whether a CPU may come from a breakpoint to a copy of which it has not been told, and execute what was there before.
pub(crate) fn returns_early() -> bool {
    // SAFETY: The function only reads a parameter of the module and a feature of the CPU.
    unsafe { bindings::ferro_kprobe_returns_early() }
}
