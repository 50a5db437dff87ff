// SPDX-License-Identifier: GPL-2.0

//! Being called after a grace period of RCU tasks: `registry::reap()`, by way of `engine.c` and `exports.rs`.
//!
//! Contexts: process.

use kernel::bindings;

/// Has `registry::reap()` called after a grace period of RCU tasks, unless it is going to be called after one that has begun.
pub(crate) fn call_reap() {
    // SAFETY: The function can be called at any time. What it calls later is code of this module, which waits for that before
    // it goes: `engine.c` does so when the module is removed.
    unsafe { bindings::ferro_kprobes_call_reap() };
}

/// Waits until that has been called, if it is going to be. Sleeps.
pub(crate) fn wait() {
    // SAFETY: The function can be called wherever one may sleep; elsewhere it warns.
    unsafe { bindings::ferro_kprobes_wait_for_reap() };
}
