// SPDX-License-Identifier: GPL-2.0

//! Rebuild of all trampolines by ftrace.
//!
//! Contexts: process, sleeps; without `ftrace_lock`, and without the engine's mutex.

use kernel::bindings;
use kernel::error::to_result;
use kernel::prelude::*;

/// Proof that ftrace has rebuilt all trampolines. If the engine was about to be detached before, no
/// site calls the stubs and sets that it has made, and no task is in them.
pub(crate) struct Rebuilt {
    is_last: bool,
}

impl Rebuilt {
    /// Returns true if the engine was about to be detached when the rebuild began.
    pub(super) fn is_last(&self) -> bool {
        self.is_last
    }
}

/// Calls a function with `ftrace_lock` held, so outside of any change of ops or sites. Context:
/// without the engine's mutex.
pub(crate) fn with_ftrace_lock(function: extern "C" fn()) {
    // SAFETY: It calls the function, and sleeps, as this function's context allows.
    unsafe { bindings::ferro_tramp_locked(Some(function)) };
}

/// Rebuilds the trampolines of all ops, by the attached engine or by the kernel. Waits until no
/// task is in the old ones.
///
/// Errors: -ENODEV if ftrace has failed: the old ones stay callable and are never freed.
pub(crate) fn rebuild_all() -> Result<Rebuilt> {
    let is_last = crate::registry::is_detaching();
    // SAFETY: It has no arguments, and sleeps, as this function's context allows.
    to_result(unsafe { bindings::ftrace_renew_trampolines() })?;
    Ok(Rebuilt { is_last })
}
