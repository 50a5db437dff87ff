// SPDX-License-Identifier: GPL-2.0

//! A work item that hits ask for what has to sleep.
//!
//! Contexts: asking any, NMI included; the rest process.

use kernel::bindings;
use kernel::error::to_result;
use kernel::ffi::c_void;
use kernel::prelude::*;
use kernel::sync::Arc;

/// What the work item calls.
pub(crate) trait OnWork: Send + Sync + 'static {
    /// Does what was asked for. Called by one work item at a time. Context: process; sleeps.
    fn on_work(&self);
}

/// The worker, of which there is one at a time.
pub(crate) struct Worker<T: OnWork> {
    // What the work item is called with.
    _value: Arc<T>,
}

impl<T: OnWork> Worker<T> {
    /// Has `value` called from now on when [`ask`] asks for it. Errors: -EBUSY if there is a worker.
    pub(crate) fn new(value: Arc<T>) -> Result<Self> {
        let context: *const T = &raw const *value;
        // SAFETY: `run()` takes the context for a `T`, which it is. It stays where it is until `drop()` has waited for the work
        // item, with nobody left to ask: programs go first. The module's exit always drops this.
        to_result(unsafe {
            bindings::ferro_dprobes_worker_begin(Some(Self::run), context.cast())
        })?;
        Ok(Self { _value: value })
    }

    /// # Safety
    ///
    /// `context` is a `T` that stays until this returns.
    unsafe extern "C" fn run(context: *const c_void) {
        // SAFETY: By the rules of this function.
        unsafe { &*context.cast::<T>() }.on_work();
    }
}

impl<T: OnWork> Drop for Worker<T> {
    fn drop(&mut self) {
        // SAFETY: `new()` has begun it, and nothing else ends it.
        unsafe { bindings::ferro_dprobes_worker_end() };
    }
}

/// Asks the worker for a call that sees what was stored before. There has to be one; a call that is under way already does not count.
pub(crate) fn ask() {
    // SAFETY: No requirement but that there is a worker when it runs: who asks is a program's hit, and programs are there only while
    // there is a worker.
    unsafe { bindings::ferro_dprobes_worker_ask() };
}

/// Waits until what was asked for before is done. Context: process; sleeps; not with what the worker locks.
pub(crate) fn wait() {
    // SAFETY: No requirement.
    unsafe { bindings::ferro_dprobes_worker_wait() };
}
