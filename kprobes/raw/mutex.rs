// SPDX-License-Identifier: GPL-2.0

//! The engine's mutex. Built in, the engine registers probes before a lock of Rust could have been initialised.
//!
//! Contexts: process; sleeps.

use ferro_sys::sync::mutex::StaticGuard;
use ferro_sys::sync::mutex::StaticMutex;
use kernel::bindings;
use kernel::types::NotThreadSafe;

/// What the engine's mutex protects.
pub(crate) struct EngineMutex<T>(StaticMutex<T>);

/// A proof that the engine's mutex is held, by this task.
pub(crate) struct Locked(NotThreadSafe);

/// The right to use what the mutex protects.
pub(crate) struct EngineGuard<T: 'static> {
    guard: StaticGuard<T>,
    // INVARIANT: There as long as `guard`.
    locked: Locked,
}

impl<T> EngineMutex<T> {
    /// For one static only: a second one would have the same mutex, and taking both would be a deadlock.
    pub(crate) const fn new(data: T) -> Self {
        // SAFETY: `engine.c` has the mutex, made by `DEFINE_MUTEX()` for this, in the same module. If there were two of these,
        // the mutex would still let one task at a time at the data of each.
        Self(unsafe { StaticMutex::new(&raw mut bindings::kprobes_rust_mutex, data) })
    }

    /// Waits for the mutex.
    pub(crate) fn lock(&'static self) -> EngineGuard<T> {
        EngineGuard {
            guard: self.0.lock(),
            locked: Locked(NotThreadSafe),
        }
    }
}

impl<T> EngineGuard<T> {
    /// What the mutex protects, and the proof that it is held.
    pub(crate) fn split(&mut self) -> (&mut T, &Locked) {
        (&mut self.guard, &self.locked)
    }
}
