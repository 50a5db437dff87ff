// SPDX-License-Identifier: GPL-2.0

//! The engine's mutex, which `builtin.c` defines.
//!
//! Contexts: process; sleeps. Locks, outermost first: the lock that constructors take, this mutex,
//! the mutex of the list of homes, a file's, a home's.

use ferro_sys::sync::mutex::StaticGuard;
use ferro_sys::sync::mutex::StaticMutex;
use kernel::bindings;

/// Data that the engine's mutex protects.
pub(crate) struct EngineMutex<T>(StaticMutex<T>);

impl<T> EngineMutex<T> {
    /// Creates the only instance, for a static: a second one would use the same mutex, and taking
    /// both would deadlock.
    pub(crate) const fn new(data: T) -> Self {
        // SAFETY: `builtin.c` defines the mutex with `DEFINE_MUTEX()` for this engine, and is never
        // unloaded. With two instances, the mutex would still let only one task at a time access
        // the data of each.
        Self(unsafe { StaticMutex::new(&raw mut bindings::ferro_gcov_mutex, data) })
    }

    /// Locks the mutex; sleeps until it is free.
    pub(crate) fn lock(&'static self) -> StaticGuard<T> {
        self.0.lock()
    }
}
