// SPDX-License-Identifier: GPL-2.0

//! How far the unregistering is of something whose callbacks have to be waited for: of many, with one wait for all.
//!
//! Contexts: process.

use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Full;
use kernel::sync::atomic::Relaxed;
use kernel::sync::atomic::Release;

const REGISTERED: u64 = 0;
const OVER: u64 = 1;

/// What is unregistered at once. No two batches are equal.
pub(super) struct Batch(u64);

impl Batch {
    pub(super) fn new() -> Self {
        static NEXT: Atomic<u64> = Atomic::new(OVER + 1);
        Self(NEXT.fetch_add(1, Relaxed))
    }
}

/// Registered, unregistered in a batch, or so that all callbacks are over.
pub(super) struct Stage(Atomic<u64>);

impl Stage {
    /// Of what is being registered.
    pub(super) fn new() -> Self {
        Self(Atomic::new(REGISTERED))
    }

    /// Whether it is the caller who has to unregister it, in this batch. Only one has.
    pub(super) fn leaves(&self, batch: &Batch) -> bool {
        self.0.cmpxchg(REGISTERED, batch.0, Full).is_ok()
    }

    /// Callbacks of all that was unregistered in this batch are over; for what is of another it says nothing.
    pub(super) fn is_over(&self, batch: &Batch) {
        let _ = self.0.cmpxchg(batch.0, OVER, Release);
    }

    /// Whether callbacks have to be waited for yet.
    pub(super) fn may_call(&self) -> bool {
        self.0.load(Relaxed) != OVER
    }
}
