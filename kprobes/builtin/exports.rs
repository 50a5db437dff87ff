// SPDX-License-Identifier: GPL-2.0

//! Entry points for C: `<linux/rethook.h>`, with a [`Pool`] as `struct rethook`, and the queries of
//! `<linux/kprobes.h>` that work with or without the engine. No Rust code imports this.
//!
//! Contexts: process for making and freeing, which sleep; any with preemption off for the rest of
//! rethook, NMI included.

use core::ptr::null_mut;

use ferro_sys::bindings;
use ferro_sys::mm::exec_pool;
use kernel::ffi::c_int;
use kernel::ffi::c_ulong;
use kernel::ffi::c_void;
use kernel::prelude::*;

use crate::raw::blacklist;
use crate::raw::instance_pool::Client;
use crate::raw::instance_pool::Node;
use crate::raw::instance_pool::Pool;
use crate::raw::rethook;

/// Makes a pool of nodes of `size` bytes, which begin with a `struct rethook_node`.
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

/// Makes a pool for hooking calls, for `<linux/rethook.h>`. Errors: -EINVAL without a handler or
/// nodes, -ENOMEM.
///
/// # Safety
///
/// `data` and `handler` stay until the result has been freed.
#[no_mangle]
unsafe extern "C" fn rethook_alloc(
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

/// Stops calls of the handler, for `<linux/rethook.h>`: none runs after an RCU grace period.
///
/// # Safety
///
/// `rh` is from [`rethook_alloc`], and has not been freed.
#[no_mangle]
unsafe extern "C" fn rethook_stop(rh: *mut bindings::rethook) {
    // SAFETY: By the caller's guarantee from `rethook_alloc()`, which returns a `Pool`, and not
    // freed yet.
    unsafe { (*rh.cast::<Pool>()).stop() };
}

/// Stops the handler and frees the pool after the last call has returned, for `<linux/rethook.h>`.
///
/// # Safety
///
/// As for [`rethook_stop`]; no code uses it after this, except contexts with preemption off.
#[no_mangle]
unsafe extern "C" fn rethook_free(rh: *mut bindings::rethook) {
    // SAFETY: By the caller's guarantee from `rethook_alloc()`, and so from `Pool::new()`. Only
    // contexts with preemption off may still have it.
    unsafe { Pool::free(rh.cast()) };
}

/// Returns a node for a call that begins, or NULL, for `<linux/rethook.h>`.
///
/// # Safety
///
/// `rh` is from [`rethook_alloc`], and had not been freed when preemption was turned off, which it
/// still is.
#[no_mangle]
#[link_section = ".kprobes.text"]
unsafe extern "C" fn rethook_try_get(rh: *mut bindings::rethook) -> *mut bindings::rethook_node {
    let pool: *mut Pool = rh.cast();
    // SAFETY: By the caller's guarantee from `rethook_alloc()`, which returns a `Pool`, and not
    // freed before this context began with preemption off: the memory stays for an RCU grace
    // period, and so for this context.
    unsafe {
        match (*pool).has_stopped() || !rethook::is_watched() {
            true => null_mut(),
            false => Pool::take(pool).cast(),
        }
    }
}

/// Returns an unused node to its pool, for `<linux/rethook.h>`.
///
/// # Safety
///
/// `node` is from [`rethook_try_get`], and no other code has it. Preemption is off.
#[no_mangle]
#[link_section = ".kprobes.text"]
unsafe extern "C" fn rethook_recycle(node: *mut bindings::rethook_node) {
    // SAFETY: The caller guarantees that it has taken the node out and stops using it.
    unsafe { Pool::give_back(node.cast()) };
}

/// Diverts the return of a call that begins to the handler, for `<linux/rethook.h>`.
///
/// # Safety
///
/// `node` is from [`rethook_try_get`], and no other code has it. `regs` are the registers of the
/// function that `current` is about to execute: its return address is at the stack pointer.
/// Preemption is off.
#[no_mangle]
#[link_section = ".kprobes.text"]
unsafe extern "C" fn rethook_hook(
    node: *mut bindings::rethook_node,
    regs: *mut bindings::pt_regs,
    _mcount: bool,
) {
    // SAFETY: The caller guarantees that it has taken the node out of its pool, and no other code
    // has it.
    unsafe { rethook::push(node.cast()) };
    // SAFETY: Just pushed; the caller guarantees the state of `regs`.
    unsafe { rethook::divert(node.cast(), regs) };
}

/// Handles a diverted return, for `return_trampoline.S`.
///
/// # Safety
///
/// `regs` are the registers of this return, in front of the word that `ret` is going to take.
#[no_mangle]
#[link_section = ".kprobes.text"]
unsafe extern "C" fn ferro_returned(regs: *mut bindings::pt_regs) {
    // SAFETY: The caller, `return_trampoline.S`, guarantees that these are the registers of this
    // return, with room for a word after them.
    unsafe { rethook::handle_return(regs) };
}

/// Returns the original return address of a frame, for `<linux/rethook.h>`: see
/// [`rethook::return_address`].
///
/// Context: any.
///
/// # Safety
///
/// `task` is `current` or does not run; `*cursor` is NULL, or the value that an earlier call stored
/// there for the same task.
#[no_mangle]
#[link_section = ".kprobes.text"]
unsafe extern "C" fn rethook_find_ret_addr(
    task: *mut bindings::task_struct,
    frame: c_ulong,
    cursor: *mut *mut bindings::llist_node,
) -> c_ulong {
    // SAFETY: The caller guarantees that only this context changes the shadow stack, and that
    // `*cursor` is one of its links.
    unsafe { rethook::return_address(task, frame, cursor) }
}

/// Drops the unreturned calls of a dead task, for `<linux/rethook.h>`.
///
/// # Safety
///
/// `task` never runs again.
#[no_mangle]
unsafe extern "C" fn rethook_flush_task(task: *mut bindings::task_struct) {
    // SAFETY: The caller guarantees that the task never runs again.
    unsafe { rethook::flush(task) };
}

/// Returns true if an address must not be probed, for `<linux/kprobes.h>`.
///
/// # Safety
///
/// No requirement.
#[no_mangle]
unsafe extern "C" fn within_kprobe_blacklist(addr: usize) -> bool {
    blacklist::forbids(addr).is_some()
}

/// Adds a symbol to the blacklist, for `<linux/kprobes.h>`: see [`blacklist::add`]. Returns the
/// number of bytes, or an error.
///
/// Context: process; sleeps.
///
/// # Safety
///
/// No requirement.
#[no_mangle]
unsafe extern "C" fn kprobe_add_ksym_blacklist(entry: usize) -> c_int {
    match blacklist::add(entry) {
        Ok(size) => c_int::try_from(size).unwrap_or(c_int::MAX),
        Err(error) => error.to_errno(),
    }
}

/// Adds all symbols from `start` up to `end` to the blacklist, for `<linux/kprobes.h>`. The symbols
/// before one that fails stay added.
///
/// Context: process; sleeps.
///
/// # Safety
///
/// No requirement.
#[no_mangle]
unsafe extern "C" fn kprobe_add_area_blacklist(start: usize, end: usize) -> c_int {
    match blacklist::add_area(start, end) {
        Ok(()) => 0,
        Err(error) => error.to_errno(),
    }
}

/// Initialises the blacklist, for `blacklist.c`. Context: early initcall, once.
///
/// # Safety
///
/// Called once, before modules exist, and before the initialisation data is freed.
#[no_mangle]
unsafe extern "C" fn ferro_blacklist_init() {
    // SAFETY: `blacklist.c` calls this once, before modules exist, and before the initialisation
    // data is freed.
    unsafe { blacklist::init() };
}

/// Forgets the added areas of unloading code, for `blacklist.c`: a module's initialisation code or,
/// if it `is_whole`, all of its code.
///
/// # Safety
///
/// `module` is valid until this returns.
#[no_mangle]
unsafe extern "C" fn ferro_blacklist_module_goes(module: *mut bindings::module, is_whole: bool) {
    match is_whole {
        // SAFETY: The caller guarantees that the module is valid.
        true => blacklist::forget(|at| unsafe { bindings::ferro_in_module(at, module) }),
        // SAFETY: The caller guarantees that the module is valid.
        false => blacklist::forget(|at| unsafe { bindings::ferro_in_init_text(at, module) }),
    }
}

/// Returns true for an address in the pool, for `kernel_text_address()` through
/// `<linux/kprobes.h>`.
///
/// # Safety
///
/// No requirement.
#[no_mangle]
unsafe extern "C" fn __is_insn_slot_addr(_: *mut bindings::kprobe_insn_cache, addr: usize) -> bool {
    exec_pool::contains(addr)
}

/// Finds the n-th page of the pool, for `kprobe_get_kallsym()`. Context: any.
///
/// # Safety
///
/// `addr` points to a place for an address, `detours` to one for a truth value.
#[no_mangle]
unsafe extern "C" fn ferro_exec_pool_nth(n: u32, addr: *mut usize, detours: *mut bool) -> bool {
    let Some(page) = exec_pool::nth_page(n as usize) else {
        return false;
    };
    // SAFETY: The caller guarantees that there is room for it.
    unsafe { addr.write(page) };
    // SAFETY: The caller guarantees that there is room for this, too.
    unsafe { detours.write(exec_pool::is_for_detours(page)) };
    true
}

ferro_sys::declared_in_c!(
    rethook_alloc,
    rethook_stop,
    rethook_free,
    rethook_try_get,
    rethook_recycle,
    rethook_hook,
    rethook_find_ret_addr,
    rethook_flush_task,
    within_kprobe_blacklist,
    kprobe_add_ksym_blacklist,
    kprobe_add_area_blacklist,
    ferro_blacklist_init,
    ferro_blacklist_module_goes,
    __is_insn_slot_addr,
    ferro_exec_pool_nth,
);
