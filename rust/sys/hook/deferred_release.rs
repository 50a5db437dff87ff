// SPDX-License-Identifier: GPL-2.0

//! Notes by which owners defer a release to a context that can wait.
//!
//! Contexts: creation: process; hand-over: any, NMI included.

use core::ptr::NonNull;

use kernel::bindings;
use kernel::prelude::*;
use kernel::sync::Arc;

use super::Counters;

/// A deferred release for the registry, allocated in advance so that the hand-over cannot fail.
///
/// # Invariants
///
/// `raw` is the first field.
#[repr(C)]
pub struct Note {
    raw: bindings::ferro_hook_note,
    what: usize,
    counters: Option<Arc<Counters>>,
}

// SAFETY: Only `hook.c` uses `raw`, between `defer()` and `of()`, when no other code has the note;
// the rest may be sent.
unsafe impl Send for Note {}
// SAFETY: A shared note gives access to the number and the counters, which any number of tasks may
// use, and not to `raw`.
unsafe impl Sync for Note {}

impl Note {
    /// Makes a note without a number. Errors: -ENOMEM.
    pub fn new() -> Result<KBox<Self>> {
        // INVARIANT: `raw` is the first field.
        let note = Self {
            // SAFETY: Zeroes are a list node and a work item that are not in use.
            raw: unsafe { core::mem::zeroed() },
            what: 0,
            counters: None,
        };
        Ok(KBox::new(note, GFP_KERNEL)?)
    }

    /// Sets the object that the registry releases after the hand-over. No object has the number 0.
    ///
    /// # Safety
    ///
    /// `what` is the number of an exit or a hook that belongs to the owner of this note alone.
    pub unsafe fn set(&mut self, what: usize, counters: Option<Arc<Counters>>) {
        self.what = what;
        self.counters = counters;
    }

    /// Returns the counters of the exit, if there is one. They are here because a note can be
    /// handed over where nothing can be freed.
    pub fn counters(&self) -> Option<&Counters> {
        self.counters.as_deref()
    }

    /// Returns the number.
    pub fn what(&self) -> usize {
        self.what
    }

    /// Hands the note to the registry, which gets it soon, from a work queue. Context: any, NMI
    /// included.
    pub fn defer(self: KBox<Self>) {
        let note = KBox::into_raw(self);
        // SAFETY: The box has just been given up, so the note has no other users; `raw`, its first
        // field, is zero as a new node has to be. `hook.c` passes it to `ferro_hook_late()` once,
        // which takes the box back with `of()`.
        unsafe { bindings::ferro_hook_defer(note.cast()) };
    }

    /// Takes back a note that was handed over.
    ///
    /// # Safety
    ///
    /// `raw` is the argument of `ferro_hook_late()`, and has no other users.
    pub unsafe fn of(raw: NonNull<bindings::ferro_hook_note>) -> KBox<Self> {
        // SAFETY: `ferro_hook_late()` gets the pointer that `defer()` has handed over: a box of
        // this type, whose first field is `raw`. The caller guarantees that it has no other users.
        unsafe { KBox::from_raw(raw.as_ptr().cast()) }
    }
}
