// SPDX-License-Identifier: GPL-2.0

//! Grace periods of RCU, and of RCU tasks: waiting for one, and a callback after one of RCU tasks.
//! The callback is `registry::reap()`, by way of `engine.c` and `exports.rs`.
//!
//! Contexts: process.

use ferro_sys::bindings;
use ferro_sys::sync::rcu_tasks;
use kernel::ffi::c_ulong;
use kernel::sync::atomic::Acquire;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Full;
use kernel::sync::rcu::synchronize_rcu;

/// A grace period of RCU that is over.
pub(crate) struct GracePeriod {
    /// Its number among all waits that have begun.
    number: usize,
}

/// Number of waits for readers that have begun.
static WAITS: Atomic<usize> = Atomic::new(0);

impl GracePeriod {
    /// Waits until no reader uses an object that was removed before. Sleeps.
    pub(crate) fn wait() -> Self {
        let number = WAITS.fetch_add(1, Full);
        synchronize_rcu();
        Self { number }
    }

    /// Returns the number of waits that have begun. A wait that begins later has at least this
    /// number.
    pub(super) fn begun() -> usize {
        WAITS.load(Acquire)
    }

    /// Returns true if the wait began after [`Self::begun`] had returned this number.
    pub(super) fn began_after(&self, begun: usize) -> bool {
        self.number >= begun
    }
}

/// Number of periods of RCU tasks that may have begun.
static BEGUN: Atomic<usize> = Atomic::new(0);

/// A grace period of RCU tasks, and a rude one, that are over.
///
/// # Invariants
///
/// They began after `BEGUN` became more than the number.
pub(crate) struct TasksPeriod(usize);

/// Time of an event: only a grace period that began later covers it.
#[derive(Clone, Copy)]
pub(crate) struct Since(usize);

impl Since {
    /// Returns the current time. An event before this call is covered by each [`TasksPeriod`] for
    /// which [`Self::is_over`] returns true.
    pub(crate) fn now() -> Self {
        Self(BEGUN.fetch_add(0, Full))
    }

    /// Returns true if this period began afterwards.
    pub(crate) fn is_over(self, period: &TasksPeriod) -> bool {
        self.0 <= period.0
    }
}

impl TasksPeriod {
    /// Waits until every task has voluntarily left the code that it was executing. Includes every
    /// CPU's idle task, except in code that RCU does not watch and that cannot be probed.
    ///
    /// Sleeps; not with the engine's mutex.
    pub(crate) fn wait() -> Self {
        let number = BEGUN.fetch_add(1, Full);
        rcu_tasks::synchronize();
        // RCU tasks does not wait for an idle task in code that RCU does not watch. Either that
        // code is `noinstr`, or this call waits.
        rcu_tasks::synchronize_rude();
        // INVARIANT: Both began after the count.
        Self(number)
    }

    /// Wraps the number of a period that is over.
    ///
    /// # Safety
    ///
    /// `number` is the one that [`call_reap`] gave C code, which calls after such a period.
    pub(crate) unsafe fn new(number: usize) -> Self {
        // INVARIANT: `call_reap()` counts before the period begins.
        Self(number)
    }
}

/// Schedules `registry::reap()` after a grace period of RCU tasks that begins now. Returns false if
/// a call is due already, after a period that has begun.
pub(crate) fn call_reap() -> bool {
    let number = BEGUN.fetch_add(1, Full);
    // SAFETY: The function can be called at any time. The callback is code of this module, which
    // waits for it before it is unloaded: `registry::stop()` calls `wait_for_reap()`.
    unsafe { bindings::ferro_kprobes_call_reap(number as c_ulong) }
}

/// Waits until a scheduled call has returned. Sleeps.
pub(crate) fn wait_for_reap() {
    // SAFETY: The function can be called in any context that can sleep; elsewhere it warns.
    unsafe { bindings::ferro_kprobes_wait_for_reap() };
}
