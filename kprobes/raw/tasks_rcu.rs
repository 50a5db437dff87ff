// SPDX-License-Identifier: GPL-2.0

//! Being called after a grace period of RCU tasks: `registry::reap()`, by way of `engine.c` and `exports.rs`.
//!
//! Contexts: process.

use kernel::bindings;
use kernel::ffi::c_ulong;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Full;

/// How many periods may have begun.
static BEGUN: Atomic<usize> = Atomic::new(0);

/// A grace period of RCU tasks, and a rude one, that are over.
///
/// # Invariants
///
/// They began after `BEGUN` became more than the number.
pub(crate) struct TasksPeriod(usize);

/// When something ended: a grace period that began after that is still to come.
#[derive(Clone, Copy)]
pub(crate) struct Since(usize);

impl Since {
    /// Now. What ended before this call is over after each [`TasksPeriod`] for which [`Self::is_over`].
    pub(crate) fn now() -> Self {
        Self(BEGUN.fetch_add(0, Full))
    }

    /// Whether this period began afterwards.
    pub(crate) fn is_over(self, period: &TasksPeriod) -> bool {
        self.0 <= period.0
    }
}

impl TasksPeriod {
    /// # Safety
    ///
    /// `number` is what [`call_reap`] gave C code, which calls after such a period.
    pub(crate) unsafe fn new(number: usize) -> Self {
        // INVARIANT: `call_reap()` counts before the period begins.
        Self(number)
    }
}

/// Has `registry::reap()` called after a grace period of RCU tasks that begins now. False if it is going to be called after one that
/// has begun.
pub(crate) fn call_reap() -> bool {
    let number = BEGUN.fetch_add(1, Full);
    // SAFETY: The function can be called at any time. What it calls later is code of this module, which waits for that before
    // it goes: `engine.c` does so when the module is removed.
    unsafe { bindings::ferro_kprobes_call_reap(number as c_ulong) }
}

/// Waits until that has been called, if it is going to be. Sleeps.
pub(crate) fn wait() {
    // SAFETY: The function can be called wherever one may sleep; elsewhere it warns.
    unsafe { bindings::ferro_kprobes_wait_for_reap() };
}
