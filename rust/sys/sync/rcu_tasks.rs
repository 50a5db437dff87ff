// SPDX-License-Identifier: GPL-2.0

//! Waiting until no task is in code that nobody enters any more.
//!
//! Contexts: process; sleeps.

use kernel::bindings;

/// Waits until every task has left, by its own will, what it was executing: also if it was preempted there.
pub fn synchronize() {
    // SAFETY: No requirement.
    unsafe { bindings::synchronize_rcu_tasks() };
}
