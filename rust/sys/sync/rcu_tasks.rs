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

/// Waits until every CPU has switched between tasks, idle ones included: also one that is where RCU does not watch. Where all code
/// of that kind is `noinstr`, as on x86, the kernel has nobody wait: nothing can be probed or traced there.
pub fn synchronize_rude() {
    // SAFETY: No requirement.
    unsafe { bindings::synchronize_rcu_tasks_rude() };
}
