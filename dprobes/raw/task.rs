// SPDX-License-Identifier: GPL-2.0

//! Current task.
//!
//! Contexts: any, NMI included.

use kernel::bindings;
use kernel::task::Task;

/// Returns the address of the current task.
pub(crate) fn address() -> usize {
    Task::current_raw().addr()
}

/// Returns the IDs of the current process and thread.
#[inline]
pub(crate) fn ids() -> (u32, u32) {
    let task = Task::current_raw();
    // SAFETY: The current task is live, and the ID of its process does not change.
    let process = unsafe { (*task).tgid };
    // SAFETY: The current task is live, and its ID does not change.
    let thread = unsafe { (*task).pid };
    (process.unsigned_abs(), thread.unsigned_abs())
}

/// Returns the user ID of the current task.
pub(crate) fn uid() -> u32 {
    // SAFETY: Reads the credentials of the current task, which only it changes.
    unsafe { bindings::ferro_dprobes_uid() }
}
