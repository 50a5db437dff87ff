// SPDX-License-Identifier: GPL-2.0

//! The mutexes of the registry and of the list of memory that survives a reboot. Channels may be opened before a lock of Rust
//! could have been initialised.
//!
//! Contexts: process; sleeps.

use ferro_sys::sync::mutex::StaticGuard;
use ferro_sys::sync::mutex::StaticMutex;
use kernel::bindings;

/// What a mutex protects that is there when the kernel boots.
pub(crate) struct EarlyMutex<T>(StaticMutex<T>);

impl<T> EarlyMutex<T> {
    /// For the registry only: a second one would have the same mutex, and taking both would be a deadlock.
    pub(crate) const fn of_registry(data: T) -> Self {
        // SAFETY: `exports.c` has the mutex, made by `DEFINE_MUTEX()` for this, in the same module. If there were two of
        // these, the mutex would still let one task at a time at the data of each.
        Self(unsafe { StaticMutex::new(&raw mut bindings::relay_fast_mutex, data) })
    }

    /// For the list of memory that survives a reboot only, for the same reason.
    pub(crate) const fn of_flights(data: T) -> Self {
        // SAFETY: `persistent.c` has the mutex, made by `DEFINE_MUTEX()` for this, in the same module. The rest as for the
        // registry's: one task at a time.
        Self(unsafe { StaticMutex::new(&raw mut bindings::relay_fast_flight_mutex, data) })
    }

    /// Waits for the mutex.
    pub(crate) fn lock(&'static self) -> StaticGuard<T> {
        self.0.lock()
    }
}
