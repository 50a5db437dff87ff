// SPDX-License-Identifier: GPL-2.0

//! Notes with which owners defer a release to a context that can wait.
//!
//! Contexts: creation: process; hand-over: any, NMI included.

use core::ptr::NonNull;

use crate::bindings;
use kernel::prelude::*;
use kernel::sync::Arc;

use super::Counters;

/// A deferred release for the registry, allocated in advance so that the hand-over cannot fail.
///
/// # Invariants
///
/// `raw` is the first field.
#[repr(C)]
pub struct DeferredRelease {
    raw: bindings::ferro_hook_release,
    id: usize,
    counters: Option<Arc<Counters>>,
}

// SAFETY: Only `hook.c` uses `raw`, between `defer()` and `of()`, when no other code has the
// release; the rest may be sent.
unsafe impl Send for DeferredRelease {}
// SAFETY: A shared release gives access to the number and the counters, which any number of tasks
// may use, and not to `raw`.
unsafe impl Sync for DeferredRelease {}

impl DeferredRelease {
    /// Makes a release without a number. Errors: -ENOMEM.
    pub fn new() -> Result<KBox<Self>> {
        // INVARIANT: `raw` is the first field.
        let release = Self {
            // SAFETY: Zeroes are a list node and a work item that are not in use.
            raw: unsafe { core::mem::zeroed() },
            id: 0,
            counters: None,
        };
        Ok(KBox::new(release, GFP_KERNEL)?)
    }

    /// Sets the object that the registry releases after the hand-over. No object has the number 0.
    ///
    /// # Safety
    ///
    /// `id` is the number of an exit or a hook that belongs to the owner of this release alone.
    pub unsafe fn set(&mut self, id: usize, counters: Option<Arc<Counters>>) {
        self.id = id;
        self.counters = counters;
    }

    /// Returns the counters of the exit, if there is one. They are here because a release can be
    /// handed over where nothing can be freed.
    pub fn counters(&self) -> Option<&Counters> {
        self.counters.as_deref()
    }

    /// Returns the number.
    pub fn id(&self) -> usize {
        self.id
    }

    /// Hands the release to the registry, which gets it soon, from a work queue. Context: any, NMI
    /// included.
    pub fn defer(self: KBox<Self>) {
        let release = KBox::into_raw(self);
        // SAFETY: The box has just been given up, so the release has no other users. Its first
        // field, `raw`, is zero as a new node has to be. `hook.c` passes it once to
        // `ferro_hook_run_release()`, which takes the box back with `of()`.
        unsafe { bindings::ferro_hook_defer(release.cast()) };
    }

    /// Takes back a release that was handed over.
    ///
    /// # Safety
    ///
    /// `raw` is the argument of `ferro_hook_run_release()`, and has no other users.
    pub unsafe fn of(raw: NonNull<bindings::ferro_hook_release>) -> KBox<Self> {
        // SAFETY: `ferro_hook_run_release()` gets the pointer that `defer()` has handed over: a box
        // of this type, whose first field is `raw`. The caller guarantees that it has no other
        // users.
        unsafe { KBox::from_raw(raw.as_ptr().cast()) }
    }
}
