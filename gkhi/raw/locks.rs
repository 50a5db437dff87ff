// SPDX-License-Identifier: GPL-2.0

//! The registry's two mutexes, in C. Hooks are registered before a Rust lock could be initialised.
//!
//! Contexts: process; sleeps.

use ferro_sys::sync::mutex::StaticGuard;
use ferro_sys::sync::mutex::StaticMutex;
use kernel::bindings;

/// Returns the registry's mutex, for one static only. Two statics would share the mutex, and taking
/// both would deadlock.
pub(crate) const fn registry_mutex<T>(data: T) -> StaticMutex<T> {
    // SAFETY: `hook.c` defines the mutex with `DEFINE_MUTEX()` for this purpose. The mutex is in
    // the image, as this crate is. Even with two such objects, it would let one task at a time
    // access the data of each.
    unsafe { StaticMutex::new(&raw mut bindings::ferro_hook_lock, data) }
}

/// Takes the lock for creating and removing files in debugfs.
pub(crate) fn lock_files() -> StaticGuard<()> {
    static FILES: StaticMutex<()> =
        // SAFETY: `hook.c` defines this mutex, too, with `DEFINE_MUTEX()` for this static alone.
        // The mutex is in the image.
        unsafe { StaticMutex::new(&raw mut bindings::ferro_hook_files_lock, ()) };
    FILES.lock()
}
