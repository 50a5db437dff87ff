// SPDX-License-Identifier: GPL-2.0

//! Stages of unregistering, for objects that share one wait for their callbacks.
//!
//! Contexts: process.

use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Full;
use kernel::sync::atomic::Relaxed;
use kernel::sync::atomic::Release;

const REGISTERED: u64 = 0;
const FINISHED: u64 = 1;

/// Batch of objects that are unregistered together. No two batches are equal.
pub(super) struct Batch(u64);

impl Batch {
    pub(super) fn new() -> Self {
        static NEXT: Atomic<u64> = Atomic::new(FINISHED + 1);
        Self(NEXT.fetch_add(1, Relaxed))
    }
}

/// Stage of an object: registered, unregistered in a batch, or with all callbacks finished.
pub(super) struct Stage(Atomic<u64>);

impl Stage {
    /// Makes the stage of an object under registration.
    pub(super) fn new() -> Self {
        Self(Atomic::new(REGISTERED))
    }

    /// Moves from registered to this batch. Returns true to exactly one caller, which has to
    /// unregister the object.
    pub(super) fn begin_unregister(&self, batch: &Batch) -> bool {
        self.0.cmpxchg(REGISTERED, batch.0, Full).is_ok()
    }

    /// Marks that callbacks are finished, if the object was unregistered in this batch.
    pub(super) fn finish(&self, batch: &Batch) {
        let _ = self.0.cmpxchg(batch.0, FINISHED, Release);
    }

    /// Returns true if callbacks may still be running.
    pub(super) fn may_be_called(&self) -> bool {
        self.0.load(Relaxed) != FINISHED
    }
}
