// SPDX-License-Identifier: GPL-2.0

//! Entry points for C: `<linux/jprobes.h>`. No Rust code imports this.
//!
//! Contexts: process, and sleeping.

use ferro_sys::bindings;
use kernel::ffi::c_int;
use kernel::prelude::*;

use crate::raw::jprobe::Batch;
use crate::register;

/// Registers a jprobe, for `<linux/jprobes.h>`.
///
/// # Safety
///
/// `jprobe` is NULL, or a structure that stays in place until it is unregistered, if this succeeds.
#[no_mangle]
unsafe extern "C" fn register_jprobe(jprobe: *mut bindings::jprobe) -> c_int {
    let mut jprobe = jprobe;
    // SAFETY: An array of one; the caller guarantees the function's requirements for it.
    unsafe { register_jprobes(&raw mut jprobe, 1) }
}

/// Registers jprobes, all or none, for `<linux/jprobes.h>`.
///
/// # Safety
///
/// `jprobes` is NULL or has `count` pointers: NULL, or structures that stay in place until they are
/// unregistered, if this succeeds.
#[no_mangle]
unsafe extern "C" fn register_jprobes(jprobes: *mut *mut bindings::jprobe, count: c_int) -> c_int {
    // SAFETY: The caller guarantees it; until this returns, the structures are lent to it.
    let batch = unsafe { Batch::new(jprobes, count) }.ok_or(EINVAL);
    match batch.and_then(register::register) {
        Ok(()) => 0,
        Err(error) => error.to_errno(),
    }
}

/// Unregisters a jprobe, for `<linux/jprobes.h>`.
///
/// # Safety
///
/// `jprobe` is NULL, or a structure valid until this returns.
#[no_mangle]
unsafe extern "C" fn unregister_jprobe(jprobe: *mut bindings::jprobe) {
    let mut jprobe = jprobe;
    // SAFETY: An array of one; the caller guarantees the function's requirements for it.
    unsafe { unregister_jprobes(&raw mut jprobe, 1) }
}

/// Unregisters jprobes, for `<linux/jprobes.h>`.
///
/// # Safety
///
/// `jprobes` is NULL or has `count` pointers: NULL, or structures that are valid until this
/// returns.
#[no_mangle]
unsafe extern "C" fn unregister_jprobes(jprobes: *mut *mut bindings::jprobe, count: c_int) {
    // SAFETY: The caller guarantees it; until this returns, the structures are lent to it.
    if let Some(batch) = unsafe { Batch::new(jprobes, count) } {
        batch.unregister();
    }
}

ferro_sys::declared_in_c!(
    register_jprobe,
    register_jprobes,
    unregister_jprobe,
    unregister_jprobes
);
