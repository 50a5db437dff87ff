// SPDX-License-Identifier: GPL-2.0

//! Functions of `<linux/klog.h>`, and functions that `raw/printk.c` calls.
//!
//! Contexts: [`klog`] and [`ferro_klog_active`] any, NMI included; the rest process.

use core::ptr::NonNull;

use ferro_sys::bindings;
use ferro_sys::hook::Module;
use kernel::ffi::c_int;
use kernel::ffi::c_void;
use kernel::prelude::*;

use crate::raw::handler;

/// Passes a message to the current handler.
///
/// # Safety
///
/// `len` bytes at `data` can be read and do not change during the call, if `len` is positive.
#[no_mangle]
unsafe extern "C" fn klog(data: *const c_void, len: c_int) {
    // SAFETY: By the rules of this function.
    unsafe { handler::log(data, len) };
}

/// Returns true if there is a handler, for `klog_printk()`.
///
/// # Safety
///
/// No requirement.
#[no_mangle]
unsafe extern "C" fn ferro_klog_active() -> bool {
    handler::is_active()
}

/// Makes a handler in C the current one. Returns 0, -EINVAL if `ops` is NULL, -ESHUTDOWN if its
/// module is being unloaded.
///
/// # Safety
///
/// `ops` is NULL or valid during the call, and its function keeps the rules of the header.
#[no_mangle]
unsafe extern "C" fn register_klog_handler(ops: *const bindings::klog_operations) -> c_int {
    // SAFETY: By the rules of this function.
    let Some(ops) = (unsafe { ops.as_ref() }) else {
        return EINVAL.to_errno();
    };
    // SAFETY: By the rules of the header the function stays until unregistered, which waits for a
    // grace period. If its module is unloaded before, `ferro_klog_module_going()` removes the
    // handler.
    let result = unsafe { handler::set(ops.klog) };
    result.map_or_else(|e| Error::from(crate::Error::from(e)).to_errno(), |()| 0)
}

/// Removes the current handler, if any, and waits until no CPU executes it.
///
/// # Safety
///
/// No requirement.
#[no_mangle]
unsafe extern "C" fn unregister_klog_handler() {
    handler::clear();
}

/// Removes a handler that a module has left registered, before the module is unloaded. Called by
/// `printk.c`.
///
/// # Safety
///
/// `module` is NULL, or valid during the call.
#[no_mangle]
unsafe extern "C" fn ferro_klog_module_going(module: *mut bindings::module) {
    let Some(module) = NonNull::new(module) else {
        return;
    };
    // SAFETY: By the rules of this function.
    let module = unsafe { Module::new(module) };
    if handler::clear_for_module(&module) {
        pr_notice!("an unloaded module has left a handler\n");
    }
}

ferro_sys::declared_in_c!(
    klog,
    ferro_klog_active,
    register_klog_handler,
    unregister_klog_handler,
    ferro_klog_module_going,
);
