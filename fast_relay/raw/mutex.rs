// SPDX-License-Identifier: GPL-2.0

//! Mutexes of the registry and of the list of persistent memory, defined in C: channels may be
//! opened before Rust could initialise a lock.
//!
//! Contexts: process; sleeps.

use ferro_sys::sync::mutex::StaticGuard;
use ferro_sys::sync::mutex::StaticMutex;
use kernel::bindings;

/// Data protected by a mutex that is usable at boot.
pub(crate) struct EarlyMutex<T>(StaticMutex<T>);

impl<T> EarlyMutex<T> {
    /// Creates the registry's mutex, once: a second instance would use the same mutex, and taking
    /// both would deadlock.
    pub(crate) const fn of_registry(data: T) -> Self {
        // SAFETY: `exports.c` defines the mutex with `DEFINE_MUTEX()` for this, in the same module.
        // With two instances, the mutex would still let only one task at a time access the data of
        // each.
        Self(unsafe { StaticMutex::new(&raw mut bindings::relay_fast_mutex, data) })
    }

    /// Creates the mutex of the list of persistent memory, once, for the same reason.
    pub(crate) const fn of_flights(data: T) -> Self {
        // SAFETY: `persistent.c` defines the mutex with `DEFINE_MUTEX()` for this, in the same
        // module. With two instances, the mutex would still let only one task at a time access the
        // data of each.
        Self(unsafe { StaticMutex::new(&raw mut bindings::relay_fast_flight_mutex, data) })
    }

    /// Locks the mutex; sleeps until it is free.
    pub(crate) fn lock(&'static self) -> StaticGuard<T> {
        self.0.lock()
    }
}
