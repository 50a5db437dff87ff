// SPDX-License-Identifier: GPL-2.0

//! The functions of `<linux/klog.h>`, and those that `raw/printk.c` calls.
//!
//! Contexts: [`klog`] and [`ferro_klog_active`] anywhere, NMI included; the rest in process context.

use core::ptr::NonNull;

use ferro_sys::hook::Module;
use kernel::bindings;
use kernel::ffi::c_int;
use kernel::ffi::c_void;
use kernel::prelude::*;

use crate::raw::handler;

/// Hands a message to the current handler.
///
/// # Safety
///
/// `len` bytes at `data` can be read and do not change, if it is positive.
#[export]
unsafe extern "C" fn klog(data: *const c_void, len: c_int) {
    // SAFETY: By the rules of this function.
    unsafe { handler::log(data, len) };
}

/// Whether there is a handler, for `klog_printk()`.
///
/// # Safety
///
/// No requirement.
#[export]
unsafe extern "C" fn ferro_klog_active() -> bool {
    handler::is_active()
}

/// # Safety
///
/// `ops` is NULL or valid during the call, and its function keeps the rules of the header.
#[export]
unsafe extern "C" fn register_klog_handler(ops: *const bindings::klog_operations) -> c_int {
    // SAFETY: By the rules of this function.
    let Some(ops) = (unsafe { ops.as_ref() }) else {
        return EINVAL.to_errno();
    };
    // SAFETY: By the rules of the header the function stays until it is unregistered, which waits for a grace period; if its
    // module goes before, `ferro_klog_module_going()` takes it away.
    let result = unsafe { handler::set(ops.klog) };
    result.map_or_else(|e| kernel::error::Error::from(e).to_errno(), |()| 0)
}

/// Has no handler any more.
///
/// # Safety
///
/// No requirement.
#[export]
unsafe extern "C" fn unregister_klog_handler() {
    handler::clear();
}

/// For `printk.c`: a module goes. If it has left its handler, that goes first.
///
/// # Safety
///
/// `module` is NULL, or is there during the call.
#[export]
unsafe extern "C" fn ferro_klog_module_going(module: *mut bindings::module) {
    let Some(module) = NonNull::new(module) else {
        return;
    };
    // SAFETY: By the rules of this function.
    let module = unsafe { Module::new(module) };
    if handler::clear_of(&module) {
        pr_notice!("a module that goes has left a handler\n");
    }
}
