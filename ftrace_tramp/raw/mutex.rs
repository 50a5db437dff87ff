// SPDX-License-Identifier: GPL-2.0

//! The engine's mutex, defined in `builtin.c`.
//!
//! Contexts: process; sleeps. Locks, outermost first: the mutex of `DataLock`, then `ftrace_lock`,
//! this, the pool's locks, `text_mutex`.

use ferro_sys::sync::mutex::StaticGuard;
use ferro_sys::sync::mutex::StaticMutex;
use kernel::bindings;

/// Mutex with the data that it protects.
pub(crate) struct RegistryMutex<T>(StaticMutex<T>);

impl<T> RegistryMutex<T> {
    /// Wraps `ferro_tramp_mutex`. Use it for one static only: a second one would share the mutex,
    /// and taking both would deadlock.
    pub(crate) const fn new(data: T) -> Self {
        // SAFETY: `builtin.c` makes the mutex, by `DEFINE_MUTEX()`, for this engine, and never
        // frees it. With two of these, the mutex would still admit only one task at a time to the
        // data of each.
        Self(unsafe { StaticMutex::new(&raw mut bindings::ferro_tramp_mutex, data) })
    }

    /// Waits for the mutex.
    pub(crate) fn lock(&'static self) -> StaticGuard<T> {
        self.0.lock()
    }
}
