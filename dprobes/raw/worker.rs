// SPDX-License-Identifier: GPL-2.0

//! Work item for requests of hits that have to sleep.
//!
//! Contexts: asking any, NMI included; the rest process.

use kernel::bindings;
use kernel::error::to_result;
use kernel::ffi::c_void;
use kernel::prelude::*;
use kernel::sync::Arc;

/// Value that the work item calls.
pub(crate) trait OnWork: Send + Sync + 'static {
    /// Handles the requests. Never called twice at the same time. Context: process; sleeps.
    fn on_work(&self);
}

/// Worker. There is at most one at a time.
pub(crate) struct Worker<T: OnWork> {
    // Context of the work item.
    _value: Arc<T>,
}

impl<T: OnWork> Worker<T> {
    /// Starts a worker that calls `value` after [`ask`]. Errors: -EBUSY if there is a worker.
    pub(crate) fn new(value: Arc<T>) -> Result<Self> {
        let context: *const T = &raw const *value;
        // SAFETY: `run()` takes the context for a `T`, which it is. The value stays in place until
        // `drop()` has waited for the work item. Programs are unloaded before, so that no hit asks
        // then. The module's exit always drops this.
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

/// Asks the worker for a call that sees all earlier stores. A call that has already begun does not
/// count. There has to be a worker.
pub(crate) fn ask() {
    // SAFETY: The only requirement is that there is a worker when it runs. The caller is a
    // program's hit, and programs are loaded only while there is a worker.
    unsafe { bindings::ferro_dprobes_worker_ask() };
}

/// Waits until the earlier requests are done. Context: process; sleeps; without locks that the
/// worker takes.
pub(crate) fn wait() {
    // SAFETY: No requirement.
    unsafe { bindings::ferro_dprobes_worker_wait() };
}
