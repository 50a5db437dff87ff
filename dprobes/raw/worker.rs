// SPDX-License-Identifier: GPL-2.0

//! Work item for requests of hits that have to sleep.
//!
//! Contexts: asking any, NMI included; the rest process.

use ferro_sys::bindings;
use kernel::error::to_result;
use kernel::ffi::c_void;
use kernel::prelude::*;
use kernel::sync::Arc;

/// Handler of the work item.
pub(crate) trait WorkHandler: Send + Sync + 'static {
    /// Handles the requests. Never called twice at the same time. Context: process; sleeps.
    fn run(&self);
}

/// Worker: the work item with its handler. There is at most one at a time.
pub(crate) struct Worker<T: WorkHandler> {
    // Context of the work item.
    _handler: Arc<T>,
}

impl<T: WorkHandler> Worker<T> {
    /// Starts a worker that calls the handler after [`queue`]. Errors: -EBUSY if there is a worker.
    pub(crate) fn new(handler: Arc<T>) -> Result<Self> {
        let context: *const T = &raw const *handler;
        // SAFETY: `run()` takes the context for a `T`, which it is. The handler stays in place
        // until `drop()` has waited for the work item. Programs are unloaded before, so that no hit
        // queues it then. The module's exit always drops this.
        to_result(unsafe {
            bindings::ferro_dprobes_worker_begin(Some(Self::run), context.cast())
        })?;
        Ok(Self { _handler: handler })
    }

    /// # Safety
    ///
    /// `context` is a `T` that stays until this returns.
    unsafe extern "C" fn run(context: *const c_void) {
        // SAFETY: By the rules of this function.
        unsafe { &*context.cast::<T>() }.run();
    }
}

impl<T: WorkHandler> Drop for Worker<T> {
    fn drop(&mut self) {
        // SAFETY: `new()` has begun it, and nothing else ends it.
        unsafe { bindings::ferro_dprobes_worker_end() };
    }
}

/// Queues the work item. The next call of the handler sees all earlier stores of the caller. A call
/// that has already begun does not count. Without a worker this has no effect.
pub(crate) fn queue() {
    // SAFETY: No requirement: the work item tests if there is a handler.
    unsafe { bindings::ferro_dprobes_worker_ask() };
}

/// Waits until the earlier requests are done. Context: process; sleeps; without locks that the
/// handler takes.
pub(crate) fn flush() {
    // SAFETY: No requirement.
    unsafe { bindings::ferro_dprobes_worker_wait() };
}
