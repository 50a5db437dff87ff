// SPDX-License-Identifier: GPL-2.0

//! Where C comes in: `<linux/jprobes.h>`. Nobody imports this.
//!
//! Contexts: process, and sleeping.

use kernel::bindings;
use kernel::ffi::c_int;
use kernel::prelude::*;

use crate::raw::jprobe::Batch;
use crate::register;

/// `<linux/jprobes.h>`
///
/// # Safety
///
/// `jprobe` is NULL, or a structure that stays where it is until it is unregistered, if this succeeds.
#[export]
unsafe extern "C" fn register_jprobe(jprobe: *mut bindings::jprobe) -> c_int {
    let mut jprobe = jprobe;
    // SAFETY: An array of one, for which the caller guarantees what the function wants.
    unsafe { register_jprobes(&raw mut jprobe, 1) }
}

/// `<linux/jprobes.h>`
///
/// # Safety
///
/// `jprobes` is NULL or has `count` pointers: NULL, or structures that stay where they are until they are unregistered, if
/// this succeeds.
#[export]
unsafe extern "C" fn register_jprobes(jprobes: *mut *mut bindings::jprobe, count: c_int) -> c_int {
    // SAFETY: The caller guarantees it; until this returns, the structures are lent to it.
    let batch = unsafe { Batch::new(jprobes, count) }.ok_or(EINVAL);
    match batch.and_then(register::register) {
        Ok(()) => 0,
        Err(error) => error.to_errno(),
    }
}

/// `<linux/jprobes.h>`
///
/// # Safety
///
/// `jprobe` is NULL, or a structure that is there until this returns.
#[export]
unsafe extern "C" fn unregister_jprobe(jprobe: *mut bindings::jprobe) {
    let mut jprobe = jprobe;
    // SAFETY: An array of one, for which the caller guarantees what the function wants.
    unsafe { unregister_jprobes(&raw mut jprobe, 1) }
}

/// `<linux/jprobes.h>`
///
/// # Safety
///
/// `jprobes` is NULL or has `count` pointers: NULL, or structures that are there until this returns.
#[export]
unsafe extern "C" fn unregister_jprobes(jprobes: *mut *mut bindings::jprobe, count: c_int) {
    // SAFETY: The caller guarantees it; until this returns, the structures are lent to it.
    if let Some(batch) = unsafe { Batch::new(jprobes, count) } {
        batch.unregister();
    }
}
