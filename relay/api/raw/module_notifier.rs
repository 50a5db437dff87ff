// SPDX-License-Identifier: GPL-2.0

//! Module notifier that ends the calls of functions of modules being unloaded.
//!
//! Contexts: process; sleeps.

use ferro_sys::hook::module_notifier::ModuleGoing;
use ferro_sys::hook::module_notifier::ModuleNotifier;
use ferro_sys::hook::Module;
use kernel::prelude::*;

use super::leaked_channels;

/// The functions that channels and applications call.
pub(crate) struct Listeners;

impl ModuleGoing for Listeners {
    fn going(module: &Module) {
        // Without the lock of the list: the function that is being called may have to wait for it.
        while let Some(listening) = leaked_channels::listening_in(module) {
            listening.end();
        }
    }
}

/// Registers the notifier, for the state of this module. Errors: no memory.
pub(crate) fn notifier() -> Result<ModuleNotifier<Listeners>> {
    // SAFETY: The state of this module has the result, and is dropped before it is unloaded.
    unsafe { ModuleNotifier::new() }
}
