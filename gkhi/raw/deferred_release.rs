// SPDX-License-Identifier: GPL-2.0

//! Release notes for owners in Rust.
//!
//! Contexts: process.

use ferro_sys::hook::Counters;
use ferro_sys::hook::Note;
use kernel::sync::Arc;

/// Number of an exit. Only the registry makes such numbers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ExitId(pub(crate) usize);

/// Number of a hook. Only the registry makes such numbers.
pub(crate) struct HookId(pub(crate) usize);

/// Fills the note of an exit that has just been registered.
pub(crate) fn set_exit(note: &mut Note, exit: ExitId, counters: Arc<Counters>) {
    // SAFETY: Only the registry makes such numbers, and gives each to one owner: the owner of this
    // note.
    unsafe { note.set(exit.0, Some(counters)) };
}

/// Fills the note of a hook that has just been registered.
pub(crate) fn set_hook(note: &mut Note, hook: HookId) {
    // SAFETY: Only `identify()` makes such numbers, and gives each to the one that registered the
    // hook, which owns this note.
    unsafe { note.set(hook.0, None) };
}
