// SPDX-License-Identifier: GPL-2.0

//! The thread that runs.
//!
//! Contexts: any, NMI included.

use kernel::task::Task;

/// Its number, and that of its process.
#[derive(Clone, Copy)]
pub(crate) struct Ids {
    pub(crate) thread: i32,
    pub(crate) process: i32,
}

/// Those of the thread that runs, or that this interrupt has interrupted.
#[inline(always)]
pub(crate) fn current() -> Ids {
    let task = Task::current_raw();
    // SAFETY: The current task is live, and its number does not change.
    let thread = unsafe { (*task).pid };
    // SAFETY: The current task is live, and the number of its process does not change.
    let process = unsafe { (*task).tgid };
    Ids { thread, process }
}
