// SPDX-License-Identifier: GPL-2.0

//! Notifications about modules that are unloaded.
//!
//! Contexts: process; sleeps.

use ferro_gkhi::points::ModuleEvent;
use ferro_gkhi::Answer;
use ferro_gkhi::Registered;
use ferro_sys::bindings;
use kernel::prelude::*;

use super::text::ModuleId;

/// Calls `f` for each unloaded module, before its code is freed. Dropping the result ends
/// this, and waits for calls.
pub(crate) fn register(
    f: impl Fn(ModuleId) + Send + Sync + 'static,
) -> Result<Registered<ModuleEvent>, ferro_gkhi::Error> {
    Registered::<ModuleEvent>::builder(c"ferrotrace_coverage")
        .pinned()
        .register(move |_call, (module, state)| {
            if state == bindings::module_state_MODULE_STATE_GOING {
                f(ModuleId::of(module));
            }
            Answer::Continue
        })
}
