// SPDX-License-Identifier: GPL-2.0

//! Where the second copy of an instruction calls: `post.S`.
//!
//! Contexts: any.

use kernel::bindings;

extern "C" {
    /// `post.S`
    fn ferro_kprobe_after();
}

/// Where a copy calls when it has run; `None` if the CPU is one on which it has to stop at a breakpoint.
pub(crate) fn address() -> Option<usize> {
    // SAFETY: The function only reads a parameter of the module and features of the CPU.
    let must_stop = unsafe { bindings::ferro_kprobe_must_stop() };
    (!must_stop).then_some(ferro_kprobe_after as *const () as usize)
}
