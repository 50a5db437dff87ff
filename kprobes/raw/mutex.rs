// SPDX-License-Identifier: GPL-2.0

//! The engine's mutex. Built in, the engine registers probes before a lock of Rust could have been initialised.
//!
//! Contexts: process; sleeps.

use ferro_sys::sync::mutex::StaticGuard;
use ferro_sys::sync::mutex::StaticMutex;
use kernel::bindings;

extern "C" {
    /// `engine.c`
    static mut kprobes_rust_mutex: bindings::mutex;
}

/// What the engine's mutex protects.
pub(crate) struct EngineMutex<T>(StaticMutex<T>);

/// The right to use it.
pub(crate) type EngineGuard<T> = StaticGuard<T>;

impl<T> EngineMutex<T> {
    /// For one static only: a second one would have the same mutex, and taking both would be a deadlock.
    pub(crate) const fn new(data: T) -> Self {
        // SAFETY: `engine.c` has the mutex, made by `DEFINE_MUTEX()` for this, in the same module. If there were two of these,
        // the mutex would still let one task at a time at the data of each.
        Self(unsafe { StaticMutex::new(&raw mut kprobes_rust_mutex, data) })
    }

    /// Waits for the mutex.
    pub(crate) fn lock(&'static self) -> EngineGuard<T> {
        self.0.lock()
    }
}
