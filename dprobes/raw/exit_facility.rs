// SPDX-License-Identifier: GPL-2.0

//! Debugger and dumps of the kernel.
//!
//! Contexts: any, NMI included.

use kernel::bindings;

/// Stops in the kernel's debugger, if there is one.
pub(crate) fn debugger() {
    // SAFETY: No requirement; without a connected debugger it does nothing.
    unsafe { bindings::ferro_dprobes_debugger() }
}

/// Crashes the kernel, as the system request `c` does. A loaded crash kernel makes a dump.
pub(crate) fn crash() {
    // SAFETY: No requirement. Root has asked for it.
    unsafe { bindings::ferro_dprobes_crash() }
}

/// Ends the current process with a core dump once it returns to user space. Does nothing for
/// threads of the kernel.
pub(crate) fn core_dump() {
    // SAFETY: No requirement.
    unsafe { bindings::ferro_dprobes_core_dump() }
}

/// Waits until the signals of [`core_dump`] have been sent. Context: process; sleeps.
pub(crate) fn finish() {
    // SAFETY: No requirement.
    unsafe { bindings::ferro_dprobes_finish() }
}
