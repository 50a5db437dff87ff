// SPDX-License-Identifier: GPL-2.0

//! Deferred releases of owners in Rust.
//!
//! Contexts: process.

use ferro_sys::hook::Counters;
use ferro_sys::hook::DeferredRelease;
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
