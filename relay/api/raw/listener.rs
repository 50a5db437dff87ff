// SPDX-License-Identifier: GPL-2.0

//! A client's function that an application calls until the function's module is unloaded.
//!
//! Contexts: process; sleeps. Locks: [`Listening::calling`], around the client's function.

use ferro_sys::hook::Module;
use kernel::new_mutex;
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Arc;
use kernel::sync::Mutex;

/// A client's function that is called when an application is enabled (true) and disabled (false).
///
/// Context: process; sleeps. It must not use the application's controls. If it returns an error for
/// true, the application stays disabled.
pub type Listener = fn(bool) -> Result;

/// A [`Listener`] that is called until its module is unloaded.
///
/// # Invariants
///
/// Unless `is_over` is set, the function's module is loaded: `module_notifier.rs` sets `is_over`
/// before the module is freed, and waits for a call in progress.
#[pin_data]
pub(crate) struct Listening {
    listener: Listener,
    is_over: Atomic<bool>,
    #[pin]
    calling: Mutex<()>,
}

impl Listening {
    /// Wraps a function. Errors: -ENOMEM.
    pub(crate) fn new(listener: Listener) -> Result<Arc<Self>> {
        // INVARIANT: The caller's module is loaded, and so is the module of any function that it
        // can name.
        let new = pin_init!(Self {
            listener,
            is_over: Atomic::new(false),
            calling <- new_mutex!(()),
        });
        Arc::pin_init(new, GFP_KERNEL)
    }

    /// Calls the function, unless its module is unloaded. Errors: the function's.
    pub(crate) fn notify(&self, enabled: bool) -> Result {
        let _calling = self.calling.lock();
        match self.is_over.load(Relaxed) {
            true => Ok(()),
            false => (self.listener)(enabled),
        }
    }

    /// Returns true if the function is still called, and is in `module`.
    pub(super) fn is_in(&self, module: &Module) -> bool {
        let address = (self.listener as *const ()).addr();
        !self.is_over.load(Relaxed) && module.contains(address)
    }

    /// Stops the calls: the function is not called after this has returned.
    pub(super) fn end(&self) {
        let _calling = self.calling.lock();
        self.is_over.store(true, Relaxed);
    }
}
