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
    // SAFETY: Only `register_hook()` makes such numbers, and gives each to one owner: the owner of
    // this release.
    unsafe { release.set(hook.0, None) };
}

/// Returns the parts that the registry needs to call an exit in Rust.
pub(crate) fn parts_of<H: Spec, C: Entry, E: ExitOn<H, C>>(exit: &KBox<E>) -> Parts {
    // SAFETY: The contents of a box do not move. `Builder` gives the box to the registry, which
    // drops it after the exit is deregistered and its last call has returned. The registry compares
    // the hook with the description in `H`.
    unsafe { typed::parts_of::<H, C, E>(exit) }
}

/// Returns the publisher of a hook, which sets the hook's target. Called before the registry has
/// the hook.
pub(crate) fn publisher_of(hook: HookRef) -> Result<Publisher> {
    // SAFETY: The registry makes a publisher only with its lock held, and only for a hook that has
    // none, so this is the only one. The hook exists as long as its `HookRef`s are used, and the
    // registry deletes it before its module is freed.
    unsafe { Publisher::new(hook) }
}
