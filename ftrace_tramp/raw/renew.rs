// SPDX-License-Identifier: GPL-2.0

//! Having ftrace make its trampolines anew.
//!
//! Contexts: process, sleeps; without `ftrace_lock`, and without the engine's mutex.

use kernel::bindings;
use kernel::error::to_result;
use kernel::prelude::*;

/// Frees the trampolines of all ops and has them made, by whoever is attached. Waits until nobody is in them.
///
/// Errors: -ENODEV if ftrace has given up: they stay, and are called for ever.
pub(crate) fn renew() -> Result {
    // SAFETY: It takes nothing from us, and sleeps, as this function's context allows.
    to_result(unsafe { bindings::ftrace_renew_trampolines() })
}
