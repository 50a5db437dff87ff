// SPDX-License-Identifier: GPL-2.0

//! The current task.
//!
//! Contexts: any, NMI included.

use kernel::bindings;
use kernel::task::Task;

/// Its address.
pub(crate) fn address() -> usize {
    Task::current_raw().addr()
}

/// The number of its process, and its own.
#[inline]
pub(crate) fn ids() -> (u32, u32) {
    let task = Task::current_raw();
    // SAFETY: The current task is live, and the number of its process does not change.
    let process = unsafe { (*task).tgid };
    // SAFETY: The current task is live, and its number does not change.
    let thread = unsafe { (*task).pid };
    (process.unsigned_abs(), thread.unsigned_abs())
}

/// The number of its user.
pub(crate) fn uid() -> u32 {
    // SAFETY: Reads the credentials of the current task, which are its own to change.
    unsafe { bindings::ferro_dprobes_uid() }
}
