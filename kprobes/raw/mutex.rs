// SPDX-License-Identifier: GPL-2.0

//! The engine's mutex. A built-in engine registers probes before a lock of Rust can be initialised.
//!
//! Contexts: process; sleeps.

use ferro_sys::static_mutex;
use ferro_sys::sync::mutex::StaticGuard;
use ferro_sys::sync::mutex::StaticMutex;
use kernel::types::NotThreadSafe;

/// The data under the engine's mutex.
pub(crate) struct EngineMutex<T>(StaticMutex<T>);

/// Proof that this task holds the engine's mutex.
pub(crate) struct Locked(NotThreadSafe);

/// Guard of the engine's mutex, with access to the data.
pub(crate) struct EngineGuard<T: 'static> {
    guard: StaticGuard<T>,
    // INVARIANT: There as long as `guard`.
    locked: Locked,
}

impl<T> EngineMutex<T> {
    /// Creates the mutex's data. For one static only: a second one would have the same mutex, and
    /// locking both would deadlock.
    pub(crate) const fn new(data: T) -> Self {
        Self(static_mutex!(kprobes_rust_mutex, data))
    }

    /// Locks the mutex.
    pub(crate) fn lock(&'static self) -> EngineGuard<T> {
        EngineGuard {
            guard: self.0.lock(),
            locked: Locked(NotThreadSafe),
        }
    }
}

impl<T> EngineGuard<T> {
    /// Returns the data, and the proof that the mutex is held.
    pub(crate) fn split(&mut self) -> (&mut T, &Locked) {
        (&mut self.guard, &self.locked)
    }
}
