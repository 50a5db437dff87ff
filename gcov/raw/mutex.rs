// SPDX-License-Identifier: GPL-2.0

//! The engine's mutexes, which `builtin.c` has.
//!
//! Contexts: process; sleeps. Locks, outermost first: the one that constructors take, this, that of the homes, that of a file, that of
//! a home.

use ferro_sys::sync::mutex::StaticGuard;
use ferro_sys::sync::mutex::StaticMutex;
use kernel::bindings;

/// What the engine's mutex protects.
pub(crate) struct EngineMutex<T>(StaticMutex<T>);

impl<T> EngineMutex<T> {
    /// For one static only: a second one would have the same mutex, and taking both would be a deadlock.
    pub(crate) const fn new(data: T) -> Self {
        // SAFETY: `builtin.c` makes the mutex, by `DEFINE_MUTEX()`, for this engine, and stays. If there were two of these, the
        // mutex would still let one task at a time at the data of each.
        Self(unsafe { StaticMutex::new(&raw mut bindings::ferro_gcov_mutex, data) })
    }

    /// Waits for the mutex.
    pub(crate) fn lock(&'static self) -> StaticGuard<T> {
        self.0.lock()
    }
}
