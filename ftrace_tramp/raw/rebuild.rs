// SPDX-License-Identifier: GPL-2.0

//! Having ftrace make its trampolines anew.
//!
//! Contexts: process, sleeps; without `ftrace_lock`, and without the engine's mutex.

use kernel::bindings;
use kernel::error::to_result;
use kernel::prelude::*;

/// All trampolines have been made anew. If the engine was about to go when that began, nobody calls what it has made for
/// functions, or is in it.
pub(crate) struct Renewed {
    is_last: bool,
}

impl Renewed {
    /// Whether the engine was about to go when it began.
    pub(super) fn is_last(&self) -> bool {
        self.is_last
    }
}

/// Calls a function with `ftrace_lock` held: in no change of ops or of sites. Context: without the engine's mutex.
pub(crate) fn with_ftrace_lock(function: extern "C" fn()) {
    // SAFETY: It calls the function, and sleeps, as this function's context allows.
    unsafe { bindings::ferro_tramp_locked(Some(function)) };
}

/// Frees the trampolines of all ops and has them made, by whoever is attached. Waits until nobody is in them.
///
/// Errors: -ENODEV if ftrace has given up: they stay, and are called for ever.
pub(crate) fn renew() -> Result<Renewed> {
    let is_last = crate::registry::is_leaving();
    // SAFETY: It takes nothing from us, and sleeps, as this function's context allows.
    to_result(unsafe { bindings::ftrace_renew_trampolines() })?;
    Ok(Renewed { is_last })
}
