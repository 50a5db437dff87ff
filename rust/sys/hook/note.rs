// SPDX-License-Identifier: GPL-2.0

//! What is left to do where one can wait.
//!
//! Contexts: making one in process context, handing it over anywhere, NMI included.

use core::ptr::NonNull;

use kernel::bindings;
use kernel::prelude::*;

/// What the registry is to do later; made before, so that nothing has to be allocated then.
///
/// # Invariants
///
/// `raw` comes first.
#[repr(C)]
pub struct Note {
    raw: bindings::ferro_hook_note,
    what: usize,
}

// SAFETY: Nobody but C code touches `raw`, after the note has been handed over.
unsafe impl Send for Note {}
// SAFETY: As above.
unsafe impl Sync for Note {}

impl Note {
    /// Of no number yet. Errors: -ENOMEM.
    pub fn new() -> Result<KBox<Self>> {
        // INVARIANT: As it says.
        let note = Self {
            // SAFETY: Zeroes are a list's node and a work item that nobody uses yet.
            raw: unsafe { core::mem::zeroed() },
            what: 0,
        };
        Ok(KBox::new(note, GFP_KERNEL)?)
    }

    /// Says what it is about.
    pub fn set(&mut self, what: usize) {
        self.what = what;
    }

    /// The number.
    pub fn what(&self) -> usize {
        self.what
    }

    /// Has the registry called with it, soon, from a work queue. Context: any, NMI included.
    pub fn defer(self: KBox<Self>) {
        let note = KBox::into_raw(self);
        // SAFETY: It is ours, and comes back by `of()`.
        unsafe { bindings::ferro_hook_defer(note.cast()) };
    }

    /// One that comes back.
    ///
    /// # Safety
    ///
    /// `raw` is what `ferro_hook_late()` was called with, and is not used otherwise.
    pub unsafe fn of(raw: NonNull<bindings::ferro_hook_note>) -> KBox<Self> {
        // SAFETY: By the rules of this function it is from `defer()`; `raw` comes first.
        unsafe { KBox::from_raw(raw.as_ptr().cast()) }
    }
}
