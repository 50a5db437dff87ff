// SPDX-License-Identifier: GPL-2.0

//! The work items for `registry::optimise()` and `registry::leave_idle()`, by way of `engine.c` and
//! `exports.rs`, and the sysctl `debug.kprobes-optimization`.
//!
//! Contexts: process.

use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::prelude::*;

extern "C" {
    /// `detour.h`
    fn ferro_kprobes_optimise_soon();
    /// `detour.h`
    fn ferro_kprobes_optimise_later();
    /// `detour.h`
    fn ferro_kprobes_leave_idle_soon();
    /// `detour.h`
    fn ferro_kprobes_optimise_cancel();
    /// `detour.h`
    fn ferro_kprobes_keep();
    /// `detour.h`
    fn ferro_kprobes_sysctl_add() -> c_int;
    /// `detour.h`
    fn ferro_kprobes_sysctl_remove();
}

/// Schedules `registry::optimise()` soon. [`cancel`] has to follow the last call.
pub(crate) fn call_soon() {
    // SAFETY: It can be called in any context that can take a spin lock. The work item runs code of
    // this module, which waits for it before it is unloaded: `registry::stop()` calls `cancel()`
    // when no caller can find the engine.
    unsafe { ferro_kprobes_optimise_soon() };
}

/// Schedules `registry::optimise()` later, when there may be memory.
pub(crate) fn call_later() {
    // SAFETY: As for `call_soon()`.
    unsafe { ferro_kprobes_optimise_later() };
}

/// Schedules `registry::leave_idle()` soon, even while `registry::optimise()` waits for every task.
/// [`cancel`] waits for it, too.
pub(crate) fn leave_idle_soon() {
    // SAFETY: As for `call_soon()`.
    unsafe { ferro_kprobes_leave_idle_soon() };
}

/// Keeps a modular engine loaded permanently: some code leads to it, and cannot be changed.
pub(crate) fn keep() {
    // SAFETY: This is code of the module, so that it is there.
    unsafe { ferro_kprobes_keep() };
}

/// Cancels both, and waits until neither runs. Sleeps.
pub(crate) fn cancel() {
    // SAFETY: It can be called in any context that can sleep.
    unsafe { ferro_kprobes_optimise_cancel() };
}

/// The registered sysctl. The module's object owns it, so that the sysctl is unregistered before
/// the module is unloaded.
pub(crate) struct Sysctl(());

impl Sysctl {
    /// Registers it. Errors: -ENOMEM.
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: The engine makes one, when it is loaded; its table is a static of this module.
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
