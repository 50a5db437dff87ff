// SPDX-License-Identifier: GPL-2.0

//! The `unsafe` code of the registry: numbers of hooks and exits, and the calls of
//! `ferro_sys::hook` that rely on the registry.
//!
//! Contexts: process; sleeps.

use ferro_sys::hook::typed;
use ferro_sys::hook::typed::Entry;
use ferro_sys::hook::typed::ExitOn;
use ferro_sys::hook::typed::Spec;
use ferro_sys::hook::Counters;
use ferro_sys::hook::DeferredRelease;
use ferro_sys::hook::HookRef;
use ferro_sys::hook::Parts;
use ferro_sys::hook::Publisher;
use ferro_sys::sync::mutex::StaticGuard;
use ferro_sys::sync::mutex::StaticMutex;
use kernel::bindings;
use kernel::prelude::*;
use kernel::sync::Arc;

/// Number of an exit. Only the registry makes such numbers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ExitId(pub(crate) usize);

/// Number of a hook. Only the registry makes such numbers.
pub(crate) struct HookId(pub(crate) usize);

/// Fills the release of an exit that has just been registered.
pub(crate) fn set_exit(release: &mut DeferredRelease, exit: ExitId, counters: Arc<Counters>) {
    // SAFETY: Only the registry makes such numbers, and gives each to one owner: the owner of this
    // release.
    unsafe { release.set(exit.0, Some(counters)) };
}

/// Fills the release of a hook that has just been registered.
pub(crate) fn set_hook(release: &mut DeferredRelease, hook: HookId) {
    // SAFETY: Only `register_hook()` makes such numbers, and gives each to the one that registered
    // the hook, which owns this release.
    unsafe { release.set(hook.0, None) };
}

/// Returns the parts by which the registry calls an exit in Rust.
pub(crate) fn parts_of<H: Spec, C: Entry, E: ExitOn<H, C>>(exit: &KBox<E>) -> Parts {
    // SAFETY: The contents of a box do not move. `Builder` gives the box to the registry, which
    // drops it after the exit is deregistered and its last call has returned. The registry compares
    // the hook with the description in `H`.
    unsafe { typed::parts_of::<H, C, E>(exit) }
}

/// Returns the publisher of a hook that is not in the registry yet. It sets the target of the hook.
pub(crate) fn publisher_of(hook: HookRef) -> Result<Publisher> {
    // SAFETY: The registry makes a publisher only with its lock held, and only for a hook that has
    // none, so this is the only one. The hook exists as long as its `HookRef`s are used, and the
    // registry deletes it before its module is freed.
    unsafe { Publisher::new(hook) }
}

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
