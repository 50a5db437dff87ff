// SPDX-License-Identifier: GPL-2.0

//! What is left to do where one can wait.
//!
//! Contexts: making one in process context, handing it over anywhere, NMI included.

use core::ptr::NonNull;

use kernel::bindings;
use kernel::prelude::*;
use kernel::sync::Arc;

use super::Counters;

/// What the registry is to do later; made before, so that nothing has to be allocated then.
///
/// # Invariants
///
/// `raw` comes first.
#[repr(C)]
pub struct Note {
    raw: bindings::ferro_hook_note,
    what: usize,
    counters: Option<Arc<Counters>>,
}

// SAFETY: `raw` is only used by `hook.c`, between `defer()` and `of()`, when nobody else has the note; the rest may be sent.
unsafe impl Send for Note {}
// SAFETY: A shared note gives away the number and the counters, which are made for any number of tasks, and not `raw`.
unsafe impl Sync for Note {}

impl Note {
    /// Of no number yet. Errors: -ENOMEM.
    pub fn new() -> Result<KBox<Self>> {
        // INVARIANT: As it says.
        let note = Self {
            // SAFETY: Zeroes are a list's node and a work item that nobody uses yet.
            raw: unsafe { core::mem::zeroed() },
            what: 0,
            counters: None,
        };
        Ok(KBox::new(note, GFP_KERNEL)?)
    }

    /// Says what it is about: the registry takes that away when the note has been handed over. Nothing has the number 0.
    ///
    /// # Safety
    ///
    /// `what` is the number of an exit or a hook that nobody but the owner of this note relies on.
    pub unsafe fn set(&mut self, what: usize, counters: Option<Arc<Counters>>) {
        self.what = what;
        self.counters = counters;
    }

    /// What the exit counts in, if it is about one. They are here since a note can be handed over where nothing can be freed.
    pub fn counters(&self) -> Option<&Counters> {
        self.counters.as_deref()
    }

    /// The number.
    pub fn what(&self) -> usize {
        self.what
    }

    /// Has the registry called with it, soon, from a work queue. Context: any, NMI included.
    pub fn defer(self: KBox<Self>) {
        let note = KBox::into_raw(self);
        // SAFETY: The box has just been given up, so that nobody else uses the note; `raw`, its first field, is zero as a new
        // node has to be. `hook.c` passes it to `ferro_hook_late()` once, which takes the box back with `of()`.
        unsafe { bindings::ferro_hook_defer(note.cast()) };
    }

    /// One that comes back.
    ///
    /// # Safety
    ///
    /// `raw` is what `ferro_hook_late()` was called with, and is not used otherwise.
    pub unsafe fn of(raw: NonNull<bindings::ferro_hook_note>) -> KBox<Self> {
        // SAFETY: `ferro_hook_late()` gets what `defer()` has handed over, which was a box of this type, whose first field is
        // `raw`; the caller guarantees that nobody else has it.
        unsafe { KBox::from_raw(raw.as_ptr().cast()) }
    }
}
