// SPDX-License-Identifier: GPL-2.0

//! The registry's mutex. Channels may be opened before a lock of Rust could have been initialised.
//!
//! Contexts: process; sleeps.

use ferro_sys::sync::mutex::StaticGuard;
use ferro_sys::sync::mutex::StaticMutex;
use kernel::bindings;

/// What the registry's mutex protects.
pub(crate) struct RegistryMutex<T>(StaticMutex<T>);

impl<T> RegistryMutex<T> {
    /// For one static only: a second one would have the same mutex, and taking both would be a deadlock.
    pub(crate) const fn new(data: T) -> Self {
        // SAFETY: `exports.c` has the mutex, made by `DEFINE_MUTEX()` for this, in the same module. If there were two of
        // these, the mutex would still let one task at a time at the data of each.
        Self(unsafe { StaticMutex::new(&raw mut bindings::relay_rust_mutex, data) })
    }

    /// Waits for the mutex.
    pub(crate) fn lock(&'static self) -> StaticGuard<T> {
        self.0.lock()
    }
}
