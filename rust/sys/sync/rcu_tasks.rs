// SPDX-License-Identifier: GPL-2.0

//! Waits until no task executes code that can no longer be entered.
//!
//! Contexts: process; sleeps.

use crate::bindings;

/// Waits until every task has switched voluntarily, preempted tasks included.
pub fn synchronize() {
    // SAFETY: No requirement.
    unsafe { bindings::synchronize_rcu_tasks() };
}

/// Waits until every CPU has switched between tasks, idle ones included, even where RCU is not
/// watching. If all such code is `noinstr`, as on x86, the kernel does not wait: that code cannot
/// be probed or traced.
pub fn synchronize_rude() {
    // SAFETY: No requirement.
    unsafe { bindings::synchronize_rcu_tasks_rude() };
}
