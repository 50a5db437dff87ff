// SPDX-License-Identifier: GPL-2.0

//! Where C comes in. Nobody imports this.
//!
//! Contexts: process, while the kernel boots.
#![cfg(not(MODULE))]

use kernel::ffi::c_int;
use kernel::prelude::*;

use crate::attach::Attached;

/// For `builtin.c`: trampolines are made from here on, also for the ops that are there.
#[export]
unsafe extern "C" fn ferro_tramp_start() -> c_int {
    // It is there for good.
    match Attached::new().map(core::mem::forget) {
        Ok(()) => 0,
        Err(error) => error.to_errno(),
    }
}
