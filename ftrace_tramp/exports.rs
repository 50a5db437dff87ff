// SPDX-License-Identifier: GPL-2.0

//! Entry point for C. No Rust code imports this.
//!
//! Contexts: process, during boot.
#![cfg(not(MODULE))]

use kernel::ffi::c_int;

use crate::attach::Attached;

/// Starts the engine for `builtin.c`, which also replaces the trampolines of registered ops.
#[no_mangle]
unsafe extern "C" fn ferro_tramp_start() -> c_int {
    // Built in, the engine is never detached.
    match Attached::new().map(core::mem::forget) {
        Ok(()) => 0,
        Err(error) => error.to_errno(),
    }
}

ferro_sys::declared_in_c!(ferro_tramp_start);
