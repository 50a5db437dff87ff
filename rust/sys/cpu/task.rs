// SPDX-License-Identifier: GPL-2.0

//! The current task in the middle of long work.
//!
//! Contexts: process; sleeps.

use kernel::bindings;
use kernel::prelude::*;

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
pub fn breathe() -> Result {
    if is_being_killed() {
        return Err(EINTR);
    }
    cond_resched();
    Ok(())
}
