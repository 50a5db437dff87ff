// SPDX-License-Identifier: GPL-2.0

//! Lock against changes of per-function data, while the engine is attached or detached.
//!
//! Contexts: process, sleeps; without `ftrace_lock`.

use ferro_sys::bindings;
use ferro_sys::static_mutex;
use ferro_sys::sync::mutex::StaticGuard;
use ferro_sys::sync::mutex::StaticMutex;
use kernel::prelude::*;

use super::func_data::DataChange;
use super::hooks::TrampolineHandler;
use super::rebuild::Rebuilt;

/// True if functions may have stubs. `data.c` uses the mutex for its own data, too.
static LOCK: StaticMutex<bool> = static_mutex!(ferro_tramp_data_mutex, false);

/// Guard against attaching and detaching of function data.
///
/// Locks: outside of `ftrace_lock`, of the engine's mutex and of the hook registry's mutex: an exit
/// does not attach data.
pub(crate) struct DataLock(StaticGuard<bool>);

impl DataLock {
    /// Waits for the mutex.
    pub(crate) fn new() -> Self {
        Self(LOCK.lock())
    }

    /// Makes stubs for all attached functions, then attaches the engine by `arm`. Frees the stubs
    /// if `arm` fails.
    ///
    /// Errors: those of `arm`; -EBUSY if the engine is attached already, without [`Self::free_all`]
    /// since.
    pub(crate) fn arm<H: TrampolineHandler>(&mut self, arm: impl FnOnce() -> Result) -> Result {
        if core::mem::replace(&mut *self.0, true) {
            return Err(EBUSY);
        }
        // No function has a stub yet. No function has a set of the engine's, through which a site
        // could call a stub.
        self.visit_all::<H>(bindings::ftrace_data_event_FTRACE_DATA_ATTACH);
        arm().inspect_err(|_| {
            *self.0 = false;
            self.visit_all::<H>(bindings::ftrace_data_event_FTRACE_DATA_RELEASED);
        })
    }

    /// Frees all stubs unless sites may still call them. After `rebuilt`, the engine makes no more
    /// stubs and no site calls one.
    pub(crate) fn free_all<H: TrampolineHandler>(&mut self, rebuilt: &Rebuilt) {
        if rebuilt.is_last() && core::mem::replace(&mut *self.0, false) {
            self.visit_all::<H>(bindings::ftrace_data_event_FTRACE_DATA_RELEASED);
        }
    }

    fn visit_all<H: TrampolineHandler>(&self, event: bindings::ftrace_data_event) {
        // SAFETY: The mutex is held, and `visit()` takes the changes that this passes.
        unsafe { bindings::ferro_tramp_each_data(event, Some(visit::<H>)) };
    }
}

/// Passes a change to the handler, called by `ferro_tramp_each_data()`.
///
/// # Safety
///
/// As for [`DataChange::new`].
unsafe extern "C" fn visit<H: TrampolineHandler>(change: *mut bindings::ftrace_data_change) {
    // SAFETY: The caller guarantees it.
    if let Some(change) = unsafe { DataChange::new(change) } {
        H::change_data(change);
    }
}
