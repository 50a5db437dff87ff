// SPDX-License-Identifier: GPL-2.0

//! Kernel code that handlers redirect to, or call.
//!
//! Contexts: any, NMI included.

use kernel::bindings;

extern "C" {
    /// `just_return.c`
    fn ferro_just_return();
}

/// Returns the address of a function that only returns.
pub(crate) fn just_return() -> usize {
    (ferro_just_return as unsafe extern "C" fn() as *const ()).addr()
}

/// Writes the stack to the log.
pub(crate) fn dump_stack() {
    // SAFETY: The function can be called in any context, and has no arguments.
    unsafe { bindings::dump_stack() };
}
