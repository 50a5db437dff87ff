// SPDX-License-Identifier: GPL-2.0

//! Being called soon by work items: `registry::optimise()` and `registry::leave_idle()`, by way of `engine.c` and `exports.rs`. And
//! the sysctl `debug.kprobes-optimization`.
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

/// Has `registry::optimise()` called soon. Whoever lets it be called for the last time has [`cancel`] wait.
pub(crate) fn call_soon() {
    // SAFETY: It can be called wherever one may take a spin lock. What is called is code of this module, which waits for that before
    // it goes: `registry::stop()` calls `cancel()` when nobody finds the engine any more.
    unsafe { ferro_kprobes_optimise_soon() };
}

/// The same, but not so soon: when there may be memory again.
pub(crate) fn call_later() {
    // SAFETY: As for `call_soon()`.
    unsafe { ferro_kprobes_optimise_later() };
}

/// Has `registry::leave_idle()` called soon, even while `registry::optimise()` waits for every task. [`cancel`] waits for it, too.
pub(crate) fn leave_idle_soon() {
    // SAFETY: As for `call_soon()`.
    unsafe { ferro_kprobes_leave_idle_soon() };
}

/// Has the engine, if it is a module, stay for ever: there is code that comes to it, and cannot be changed.
pub(crate) fn keep() {
    // SAFETY: This is code of the module, so that it is there.
    unsafe { ferro_kprobes_keep() };
}

/// Cancels both, and waits until neither runs. Sleeps.
pub(crate) fn cancel() {
    // SAFETY: It can be called wherever one may sleep.
    unsafe { ferro_kprobes_optimise_cancel() };
}

/// The sysctl. It goes when this is dropped, and the module does not go before: its owner is in the module's object.
pub(crate) struct Sysctl(());

impl Sysctl {
    /// Errors: -ENOMEM.
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: The engine makes one, when it is loaded, whose table is a static of this module.
        to_result(unsafe { ferro_kprobes_sysctl_add() })?;
        Ok(Self(()))
    }
}

impl Drop for Sysctl {
    fn drop(&mut self) {
        // SAFETY: `new()` has added it. It waits for those who are in the handler.
        unsafe { ferro_kprobes_sysctl_remove() };
    }
}
