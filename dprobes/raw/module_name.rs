// SPDX-License-Identifier: GPL-2.0

//! Modules that come and go.
//!
//! Contexts: process; sleeps.

use ferro_gkhi::points::ModuleEvent;
use ferro_gkhi::Answer;
use ferro_gkhi::Registered;
use kernel::bindings;
use kernel::prelude::*;

/// What has become of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// Its code is there, and has not run yet.
    Comes,
    /// It is about to go.
    Goes,
}

/// Calls `f` with the name of each module that comes or goes, until the result is dropped, which waits for calls.
pub(crate) fn watch(
    f: impl Fn(&CStr, Event) + Send + Sync + 'static,
) -> Result<Registered<ModuleEvent>, ferro_gkhi::Error> {
    Registered::<ModuleEvent>::builder(c"rust_dprobes")
        .pinned()
        .register(move |_call, (module, state)| {
            let event = match state {
                bindings::module_state_MODULE_STATE_COMING => Event::Comes,
                bindings::module_state_MODULE_STATE_GOING => Event::Goes,
                _ => return Answer::Continue,
            };
            // SAFETY: The hook passes a module that is there during the call; its name does not change.
            let name: *const kernel::ffi::c_char = unsafe { (&raw const (*module).name).cast() };
            // SAFETY: The name ends in 0, and stays during the call.
            f(unsafe { CStr::from_char_ptr(name) }, event);
            Answer::Continue
        })
}
