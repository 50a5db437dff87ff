// SPDX-License-Identifier: GPL-2.0

//! A client's function that an application calls until the function's module is unloaded.
//!
//! Contexts: process; sleeps. Locks: [`Listening::calling`], around the client's function.

use core::ptr::NonNull;

use ferro_sys::hook::Module;
use kernel::bindings;
use kernel::error::to_result;
use kernel::new_mutex;
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Arc;
use kernel::sync::Mutex;

use super::leaked_channels;

/// A client's function that is called when an application is enabled (true) and disabled (false).
///
/// Context: process; sleeps. It must not use the application's controls. If it returns an error for
/// true, the application stays disabled.
pub type Listener = fn(bool) -> Result;

/// A [`Listener`] that is called until its module is unloaded.
///
/// # Invariants
///
/// Unless `is_over` is set, the function's module is loaded: [`relay_api_module_going`] sets it
/// before, and waits for a call in progress.
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
    pub(crate) fn tell(&self, enabled: bool) -> Result {
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
    fn end(&self) {
        let _calling = self.calling.lock();
        self.is_over.store(true, Relaxed);
    }
}

/// Registration of the module notifier. Unregisters when dropped.
pub(crate) struct ModuleWatch(());

impl ModuleWatch {
    /// Registers the notifier. Errors: as for registering a notifier.
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: The notifier calls `relay_api_module_going()` of this module, which drops this
        // before it is unloaded.
        to_result(unsafe { bindings::relay_api_watch_modules() })?;
        Ok(Self(()))
    }
}

impl Drop for ModuleWatch {
    fn drop(&mut self) {
        // SAFETY: It was registered. This waits for a call in progress.
        unsafe { bindings::relay_api_unwatch_modules() };
    }
}

/// Ends the functions of a module being unloaded, after its exit function.
///
/// # Safety
///
/// `module` is NULL, or stays valid during the call.
#[export]
unsafe extern "C" fn relay_api_module_going(module: *mut bindings::module) {
    let Some(module) = NonNull::new(module) else {
        return;
    };
    // SAFETY: By the rules of this function.
    let module = unsafe { Module::new(module) };
    // Without the lock of the list: the function that is being called may have to wait for it.
    while let Some(listening) = leaked_channels::listening_in(&module) {
        listening.end();
    }
}
