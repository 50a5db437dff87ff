// SPDX-License-Identifier: GPL-2.0

//! The current task: its numbers, and rescheduling in long loops.
//!
//! Contexts: process; sleeps, except where stated.

use crate::bindings;
use kernel::prelude::*;
use kernel::task::Task;

/// Numbers of a thread and of its process.
#[derive(Clone, Copy)]
pub struct Ids {
    /// Number of the thread.
    pub thread: i32,
    /// Number of the process.
    pub process: i32,
}

/// Returns the numbers of the current thread, also in an interrupt. Context: any, NMI included.
#[inline(always)]
pub fn ids() -> Ids {
    let task = Task::current_raw();
    // SAFETY: The current task is live, and its number does not change.
    let thread = unsafe { (*task).pid };
    // SAFETY: The current task is live, and the number of its process does not change.
    let process = unsafe { (*task).tgid };
    Ids { thread, process }
}

/// Lets waiting tasks run.
#[inline]
pub fn cond_resched() {
    // SAFETY: No requirement, except that sleeping is allowed here: otherwise it warns.
    unsafe { bindings::ferro_cond_resched() };
}

/// Returns true if the task is being killed.
pub fn is_being_killed() -> bool {
    // SAFETY: Reads the state of the current task.
    unsafe { bindings::ferro_fatal_signal_pending() }
}

/// Lets waiting tasks run; called once a round of a long loop.
///
/// Errors: -EINTR if the task is being killed; the caller undoes its work.
#[inline]
pub fn cond_resched_killable() -> Result {
    if is_being_killed() {
        return Err(EINTR);
    }
    cond_resched();
    Ok(())
}
