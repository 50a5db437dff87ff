// SPDX-License-Identifier: GPL-2.0

//! `<linux/rethook.h>` for clients other than kretprobes. A `struct rethook` is a [`Pool`] here.
//!
//! Contexts: process for making and freeing, which sleep; any with preemption off for the rest, NMI included.

use core::ptr::null_mut;

use kernel::bindings;
use kernel::ffi::c_int;
use kernel::ffi::c_void;
use kernel::prelude::*;

use super::divert;
use super::is_watched;
use super::push;
use super::Client;
use super::Node;
use super::Pool;

/// A pool of nodes of `size` bytes, of which the first are a `struct rethook_node`.
fn alloc(
    data: *mut c_void,
    handler: bindings::rethook_handler_t,
    size: c_int,
    count: c_int,
) -> Result<*mut Pool> {
    let handler = handler.ok_or(EINVAL)?;
    let [size, count] = [usize::try_from(size)?, usize::try_from(count)?];
    let data_size = size.checked_sub(size_of::<Node>()).ok_or(EINVAL)?;
    if count == 0 {
        return Err(EINVAL);
    }
    Pool::new(Client::Rethook(data, handler), count, data_size)
}

/// `<linux/rethook.h>`: makes what calls are hooked with. Errors: -EINVAL without a handler or nodes, -ENOMEM.
#[export]
extern "C" fn rethook_alloc(
    data: *mut c_void,
    handler: bindings::rethook_handler_t,
    size: c_int,
    num: c_int,
) -> *mut bindings::rethook {
    match alloc(data, handler, size, num) {
        Ok(pool) => pool.cast(),
        Err(error) => error.to_ptr(),
    }
}

/// `<linux/rethook.h>`: the handler is not called any more when a grace period of RCU has passed.
///
/// # Safety
///
/// `rh` is from [`rethook_alloc`], and has not been freed.
#[export]
unsafe extern "C" fn rethook_stop(rh: *mut bindings::rethook) {
    // SAFETY: By the rules of this function.
    unsafe { (*rh.cast::<Pool>()).stop() };
}

/// `<linux/rethook.h>`: the same, and it goes when the last call has returned.
///
/// # Safety
///
/// As for [`rethook_stop`]; nobody uses it any more, except for those with preemption off.
#[export]
unsafe extern "C" fn rethook_free(rh: *mut bindings::rethook) {
    // SAFETY: By the rules of this function.
    unsafe { Pool::free(rh.cast()) };
}

/// `<linux/rethook.h>`: a node for a call that begins, or NULL.
///
/// # Safety
///
/// As for [`rethook_stop`]. Preemption is off.
#[export]
#[link_section = ".kprobes.text"]
unsafe extern "C" fn rethook_try_get(rh: *mut bindings::rethook) -> *mut bindings::rethook_node {
    let pool: *mut Pool = rh.cast();
    // SAFETY: By the rules of this function.
    unsafe {
        match (*pool).has_stopped() || !is_watched() {
            true => null_mut(),
            false => Pool::take(pool).cast(),
        }
    }
}

/// `<linux/rethook.h>`: gives a node back that no call was hooked with.
///
/// # Safety
///
/// It is from [`rethook_try_get`]. Preemption is off.
#[export]
#[link_section = ".kprobes.text"]
unsafe extern "C" fn rethook_recycle(node: *mut bindings::rethook_node) {
    // SAFETY: By the rules of this function.
    unsafe { Pool::give_back(node.cast()) };
}

/// `<linux/rethook.h>`: has the call that begins return to the handler first.
///
/// # Safety
///
/// `node` is from [`rethook_try_get`], `regs` are of the function that `current` is about to execute: at the stack pointer is
/// its return address. Preemption is off.
#[export]
#[link_section = ".kprobes.text"]
unsafe extern "C" fn rethook_hook(
    node: *mut bindings::rethook_node,
    regs: *mut bindings::pt_regs,
    _mcount: bool,
) {
    // SAFETY: By the rules of this function.
    unsafe {
        push(node.cast());
        divert(node.cast(), regs);
    }
}
