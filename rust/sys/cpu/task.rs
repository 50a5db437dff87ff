// SPDX-License-Identifier: GPL-2.0

//! The current task: its numbers, and what it does in the middle of long work.
//!
//! Contexts: process; sleeps, except where stated.

use kernel::bindings;
use kernel::prelude::*;
use kernel::task::Task;

/// The number of a thread, and that of its process.
#[derive(Clone, Copy)]
pub struct Ids {
    /// The thread's.
    pub thread: i32,
    /// The process's.
    pub process: i32,
}

/// Those of the thread that runs, or that this interrupt has interrupted. Context: any, NMI included.
#[inline(always)]
pub fn ids() -> Ids {
    let task = Task::current_raw();
    // SAFETY: The current task is live, and its number does not change.
    let thread = unsafe { (*task).pid };
    // SAFETY: The current task is live, and the number of its process does not change.
    let process = unsafe { (*task).tgid };
    Ids { thread, process }
}

/// Lets others run, if they are waiting.
#[inline]
pub fn cond_resched() {
    // SAFETY: No requirement, but that one may sleep here: where one must not, it warns.
    unsafe { bindings::ferro_cond_resched() };
}

/// Whether the task is being killed.
pub fn is_being_killed() -> bool {
    // SAFETY: Reads the state of the current task.
    unsafe { bindings::ferro_fatal_signal_pending() }
}

/// Once a round of a long loop: lets others run.
///
/// Errors: -EINTR if the task is being killed, and whatever it is doing is to be undone.
#[inline]
pub fn cond_resched_killable() -> Result {
    if is_being_killed() {
        return Err(EINTR);
    }
    cond_resched();
    Ok(())
}
