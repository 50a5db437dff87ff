// SPDX-License-Identifier: GPL-2.0

//! What an owner in Rust has to take away.
//!
//! Contexts: process.

use ferro_sys::hook::Counters;
use ferro_sys::hook::Note;
use kernel::sync::Arc;

/// The number of an exit, which only the registry makes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ExitId(pub(crate) usize);

/// The number of a hook, which only the registry makes.
pub(crate) struct HookId(pub(crate) usize);

/// The note of an exit that has just been registered.
pub(crate) fn set_exit(note: &mut Note, exit: ExitId, counters: Arc<Counters>) {
    // SAFETY: Only the registry makes such numbers, and gives each to one owner: to whoever has this note.
    unsafe { note.set(exit.0, Some(counters)) };
}

/// The note of a hook that has just become known, by its number.
pub(crate) fn set_hook(note: &mut Note, hook: HookId) {
    // SAFETY: Only `identify()` makes such numbers, and gives each to whoever has made the hook known, which has this note.
    unsafe { note.set(hook.0, None) };
}
