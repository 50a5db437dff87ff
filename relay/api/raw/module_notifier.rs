// SPDX-License-Identifier: GPL-2.0

//! Module notifier that ends the calls of functions of modules being unloaded.
//!
//! Contexts: process; sleeps.

use core::ptr::NonNull;

use ferro_sys::bindings;
use ferro_sys::hook::Module;
use kernel::error::to_result;
use kernel::prelude::*;

use super::leaked_channels;

/// Registration of the module notifier. Unregisters when dropped.
pub(crate) struct ModuleNotifier(());

impl ModuleNotifier {
    /// Registers the notifier. Errors: as for registering a notifier.
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: The notifier calls `relay_api_module_going()` of this module, which drops this
        // before it is unloaded.
        to_result(unsafe { bindings::relay_api_watch_modules() })?;
        Ok(Self(()))
    }
}

impl Drop for ModuleNotifier {
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
#[no_mangle]
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

ferro_sys::declared_in_c!(relay_api_module_going);
