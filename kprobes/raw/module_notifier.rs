// SPDX-License-Identifier: GPL-2.0

//! The engine's exit on module events, and its own stay in memory if ftrace breaks down.
//!
//! Contexts: process, sleeps.

use core::marker::PhantomData;
use core::ptr::NonNull;

use ferro_gkhi::points::ModuleEvent;
use ferro_gkhi::Answer;
use ferro_gkhi::Registered;
use kernel::bindings;
use kernel::prelude::*;

/// A module before it is freed, or only its initialisation code.
///
/// # Invariants
///
/// The module is there for `'a`.
pub(crate) struct UnloadingCode<'a> {
    module: NonNull<bindings::module>,
    /// True if the whole module is freed.
    pub(crate) is_whole: bool,
    _module: PhantomData<&'a bindings::module>,
}

impl UnloadingCode<'_> {
    /// Returns true if an address is in code that will be freed.
    pub(crate) fn has_code(&self, at: usize) -> bool {
        let module = self.module.as_ptr();
        // SAFETY: By the type invariant the module is there.
        let in_init = unsafe { bindings::ferro_in_init_text(at, module) };
        // SAFETY: By the type invariant the module is there.
        in_init || self.is_whole && unsafe { bindings::ferro_in_core_text(at, module) }
    }

    /// Returns true if an address is in code or data of the module.
    pub(crate) fn is_in_module(&self, at: usize) -> bool {
        // SAFETY: By the type invariant the module is there.
        unsafe { bindings::ferro_in_module(at, self.module.as_ptr()) }
    }
}

/// Makes the engine stay, or not, if ftrace breaks down from here on. Waits for running users of
/// the old value.
pub(crate) fn stay_if_ftrace_breaks(on: bool) {
    // SAFETY: It can be called in any context that can sleep.
    unsafe { bindings::ferro_kprobes_hold(on) };
}

/// Sleeps a tenth of a second. Does not prevent suspending the machine, which makes it longer.
pub(crate) fn doze() {
    // SAFETY: It can be called in any context that can sleep.
    unsafe { bindings::ferro_kprobes_doze() };
}

/// Registers an exit for code before it is freed, not armed yet. Errors: as for
/// `Builder::register()`.
pub(crate) fn register(
    name: &CStr,
    going: fn(&UnloadingCode<'_>),
) -> Result<Registered<ModuleEvent>, ferro_gkhi::Error> {
    Registered::<ModuleEvent>::builder(name)
        .pinned()
        .disarmed()
        .register(move |_call, (module, state)| {
            let is_whole = match state {
                bindings::module_state_MODULE_STATE_LIVE => Some(false),
                bindings::module_state_MODULE_STATE_GOING => Some(true),
                _ => None,
            };
            if let (Some(module), Some(is_whole)) = (NonNull::new(module), is_whole) {
                // INVARIANT: The hook passes a module that is there until the exit returns.
                going(&UnloadingCode {
                    module,
                    is_whole,
                    _module: PhantomData,
                });
            }
            Answer::Continue
        })
}
