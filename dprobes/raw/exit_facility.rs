// SPDX-License-Identifier: GPL-2.0

//! The kernel's debugger, and its dumps.
//!
//! Contexts: any, NMI included.

use kernel::bindings;

/// Stops in the kernel's debugger, if there is one.
pub(crate) fn debugger() {
    // SAFETY: No requirement; without a debugger that is connected it does nothing.
    unsafe { bindings::ferro_dprobes_debugger() }
}

/// Crashes the kernel, as the system request `c` does: if a crash kernel is loaded, it makes a dump.
pub(crate) fn crash() {
    // SAFETY: No requirement. It is what root has asked for.
    unsafe { bindings::ferro_dprobes_crash() }
}

/// Ends the current process with a core dump, as soon as it returns to user space. Threads of the kernel are left alone.
pub(crate) fn core_dump() {
    // SAFETY: No requirement.
    unsafe { bindings::ferro_dprobes_core_dump() }
}

/// Waits until what [`core_dump`] has begun is done. Context: process; sleeps.
pub(crate) fn finish() {
    // SAFETY: No requirement.
    unsafe { bindings::ferro_dprobes_finish() }
}
