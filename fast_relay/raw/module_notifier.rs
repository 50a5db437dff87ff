// SPDX-License-Identifier: GPL-2.0

//! Exit that reports the unloading of modules.
//!
//! Contexts: process; sleeps.

use core::ptr::NonNull;

use ferro_gkhi::points::ModuleEvent;
use ferro_gkhi::Answer;
use ferro_gkhi::Registered;
use ferro_sys::bindings;
use ferro_sys::hook::Module;
use kernel::prelude::*;

/// Registers an exit that calls `goes` with each module that is unloaded, after its exit function.
///
/// Errors: as for registering an exit.
pub(crate) fn register(name: &CStr, goes: fn(&Module)) -> Result<Registered<ModuleEvent>> {
    let registered = Registered::<ModuleEvent>::builder(name).pinned().register(
        move |_call, (module, state)| {
            let going = state == bindings::module_state_MODULE_STATE_GOING;
            if let (true, Some(module)) = (going, NonNull::new(module)) {
                // SAFETY: The hook passes a module that stays until the exit returns, and `goes`
                // cannot keep the borrowed module.
                goes(&unsafe { Module::new(module) });
            }
            Answer::Continue
        },
    );
    Ok(registered?)
}
