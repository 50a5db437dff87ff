// SPDX-License-Identifier: GPL-2.0

//! The registry's two mutexes. Hooks are registered before a lock of Rust could have been initialised.
//!
//! Contexts: process; sleeps.

use ferro_sys::sync::mutex::StaticGuard;
use ferro_sys::sync::mutex::StaticMutex;
use kernel::bindings;

/// The registry's mutex, for one static only: a second one would have the same mutex, and taking both would be a deadlock.
pub(crate) const fn registry_mutex<T>(data: T) -> StaticMutex<T> {
    // SAFETY: `hook.c` has the mutex, made by `DEFINE_MUTEX()` for this; it is in the image, as this crate is. If there were
    // two of these, the mutex would still let one task at a time at the data of each.
    unsafe { StaticMutex::new(&raw mut bindings::ferro_hook_lock, data) }
}

/// The right to make files in debugfs, and to remove them.
pub(crate) fn lock_files() -> StaticGuard<()> {
    static FILES: StaticMutex<()> =
        // SAFETY: `hook.c` has this mutex too, made by `DEFINE_MUTEX()` for this static alone, and is in the image.
        unsafe { StaticMutex::new(&raw mut bindings::ferro_hook_files_lock, ()) };
    FILES.lock()
}
