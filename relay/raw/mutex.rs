// SPDX-License-Identifier: GPL-2.0

//! The registry's mutex, defined in C: channels may be opened before Rust could initialise a lock.
//!
//! Contexts: process; sleeps.

use ferro_sys::sync::mutex::StaticGuard;
use ferro_sys::sync::mutex::StaticMutex;
use kernel::bindings;

/// Data that the registry's mutex protects.
pub(crate) struct RegistryMutex<T>(StaticMutex<T>);

impl<T> RegistryMutex<T> {
    /// Creates the only instance, for a static: a second one would use the same mutex, and taking
    /// both would deadlock.
    pub(crate) const fn new(data: T) -> Self {
        // SAFETY: `exports.c` defines the mutex with `DEFINE_MUTEX()` for this, in the same module.
        // With two instances, the mutex would still let only one task at a time access the data of
        // each.
        Self(unsafe { StaticMutex::new(&raw mut bindings::relay_rust_mutex, data) })
    }

    /// Locks the mutex; sleeps until it is free.
    pub(crate) fn lock(&'static self) -> StaticGuard<T> {
        self.0.lock()
    }
}
