// SPDX-License-Identifier: GPL-2.0

//! Notifications about modules that are loaded and unloaded.
//!
//! Contexts: process; sleeps.

use ferro_gkhi::points::ModuleEvent;
use ferro_gkhi::Answer;
use ferro_gkhi::Registered;
use ferro_sys::bindings;
use kernel::prelude::*;

/// Event of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The module's code is loaded, and has not run yet.
    Coming,
    /// The module is about to be unloaded.
    Going,
}

/// Calls `f` with the name of each module at its loading and unloading. Dropping the result ends
/// this, and waits for calls.
pub(crate) fn register(
    f: impl Fn(&CStr, Event) + Send + Sync + 'static,
) -> Result<Registered<ModuleEvent>, ferro_gkhi::Error> {
    Registered::<ModuleEvent>::builder(c"rust_dprobes")
        .pinned()
        .register(move |_call, (module, state)| {
            let event = match state {
                bindings::module_state_MODULE_STATE_COMING => Event::Coming,
                bindings::module_state_MODULE_STATE_GOING => Event::Going,
                _ => return Answer::Continue,
            };
            // SAFETY: The hook passes a module that stays during the call; its name does not
            // change.
            let name: *const kernel::ffi::c_char = unsafe { (&raw const (*module).name).cast() };
            // SAFETY: The name ends in 0, and stays during the call.
            f(unsafe { CStr::from_char_ptr(name) }, event);
            Answer::Continue
        })
}
