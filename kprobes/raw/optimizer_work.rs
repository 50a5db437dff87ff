// SPDX-License-Identifier: GPL-2.0

//! The work items for `registry::optimize()` and `registry::unoptimize_idle()`, by way of
//! `engine.c` and `exports.rs`, and the sysctl `debug.kprobes-optimization`.
//!
//! Contexts: process.

use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::prelude::*;

extern "C" {
    /// `detour.h`
    fn ferro_kprobes_optimize_soon();
    /// `detour.h`
    fn ferro_kprobes_optimize_later();
    /// `detour.h`
    fn ferro_kprobes_unoptimize_idle_soon();
    /// `detour.h`
    fn ferro_kprobes_optimize_cancel();
    /// `detour.h`
    fn ferro_kprobes_keep();
    /// `detour.h`
    fn ferro_kprobes_sysctl_add() -> c_int;
    /// `detour.h`
    fn ferro_kprobes_sysctl_remove();
}

/// Schedules `registry::optimize()` soon. [`cancel`] has to follow the last call.
pub(crate) fn schedule() {
    // SAFETY: The function can be called in any context that can take a spin lock. The work item
    // runs code of this module, which waits for it before it is unloaded: `registry::stop()` calls
    // `cancel()` when no caller can find the engine.
    unsafe { ferro_kprobes_optimize_soon() };
}

/// Schedules `registry::optimize()` later, when there may be memory.
pub(crate) fn schedule_later() {
    // SAFETY: As for `schedule()`.
    unsafe { ferro_kprobes_optimize_later() };
}

/// Schedules `registry::unoptimize_idle()` soon, even while `registry::optimize()` waits for every
/// task. [`cancel`] waits for it, too.
pub(crate) fn schedule_unoptimize() {
    // SAFETY: As for `schedule()`.
    unsafe { ferro_kprobes_unoptimize_idle_soon() };
}

/// Keeps a modular engine loaded permanently: some code leads to it, and cannot be changed.
pub(crate) fn pin_module() {
    // SAFETY: This is code of the module, which is therefore loaded.
    unsafe { ferro_kprobes_keep() };
}

/// Cancels both, and waits until neither runs. Sleeps.
pub(crate) fn cancel() {
    // SAFETY: The function can be called in any context that can sleep.
    unsafe { ferro_kprobes_optimize_cancel() };
}

/// The registered sysctl. The module's object owns it, so that the sysctl is unregistered before
/// the module is unloaded.
pub(crate) struct Sysctl(());

impl Sysctl {
    /// Registers it. Errors: -ENOMEM.
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: The engine registers it once, when it is loaded; its table is a static of this
        // module.
        to_result(unsafe { ferro_kprobes_sysctl_add() })?;
        Ok(Self(()))
    }
}

impl Drop for Sysctl {
    fn drop(&mut self) {
        // SAFETY: `new()` has added it. It waits for running handlers.
        unsafe { ferro_kprobes_sysctl_remove() };
    }
}
