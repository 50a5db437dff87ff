// SPDX-License-Identifier: GPL-2.0

//! The engine's exit on module events, and a reference to the engine's module if ftrace fails.
//!
//! Contexts: process, sleeps.

use core::marker::PhantomData;
use core::ptr::NonNull;

use ferro_gkhi::points::ModuleEvent;
use ferro_gkhi::Answer;
use ferro_gkhi::Registered;
use ferro_sys::bindings;
use kernel::prelude::*;

/// Code that is about to be freed: a module's, or only its initialisation code.
///
/// # Invariants
///
/// The module is valid for `'a`.
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
        // SAFETY: The module is valid by the type invariant.
        let in_init = unsafe { bindings::ferro_in_init_text(at, module) };
        // SAFETY: The module is valid by the type invariant.
        in_init || self.is_whole && unsafe { bindings::ferro_in_core_text(at, module) }
    }

    /// Returns true if an address is in code or data of the module.
    pub(crate) fn is_in_module(&self, at: usize) -> bool {
        // SAFETY: The module is valid by the type invariant.
        unsafe { bindings::ferro_in_module(at, self.module.as_ptr()) }
    }
}

/// Makes a later failure of ftrace pin the engine's module, or not. Waits for running users of the
/// old value.
pub(crate) fn stay_if_ftrace_breaks(on: bool) {
    // SAFETY: The function can be called in any context that can sleep.
    unsafe { bindings::ferro_kprobes_hold(on) };
}

/// Sleeps for a tenth of a second, or longer if the machine is suspended.
pub(crate) fn sleep_briefly() {
    // SAFETY: The function can be called in any context that can sleep.
    unsafe { bindings::ferro_kprobes_doze() };
}

/// Registers an exit that is called before code is freed, disarmed at first. Errors: as for
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
                // INVARIANT: The hook passes a module that is valid until the exit returns.
                going(&UnloadingCode {
                    module,
                    is_whole,
                    _module: PhantomData,
                });
            }
            Answer::Continue
        })
}
