// SPDX-License-Identifier: GPL-2.0

//! Where C comes in: `<linux/rethook.h>`, whose `struct rethook` is a [`Pool`] here, and what the kernel asks of
//! `<linux/kprobes.h>` whether or not the engine is there. Nobody imports this.
//!
//! Contexts: process for making and freeing, which sleep; any with preemption off for the rest of rethook, NMI included.

use core::ptr::null_mut;

use ferro_sys::mm::exec_pool;
use kernel::bindings;
use kernel::ffi::c_int;
use kernel::ffi::c_ulong;
use kernel::ffi::c_void;
use kernel::prelude::*;

use crate::raw::blacklist;
use crate::raw::instance_pool::Client;
use crate::raw::instance_pool::Node;
use crate::raw::instance_pool::Pool;
use crate::raw::rethook;

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
///
/// # Safety
///
/// `data` and `handler` stay until what is made here has been freed.
#[export]
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

/// `<linux/rethook.h>`: the handler is not called any more when a grace period of RCU has passed.
///
/// # Safety
///
/// `rh` is from [`rethook_alloc`], and has not been freed.
#[export]
unsafe extern "C" fn rethook_stop(rh: *mut bindings::rethook) {
    // SAFETY: The caller guarantees that it is of `rethook_alloc()`, which returns a `Pool`, and is there as long as it has not been
    // freed.
    unsafe { (*rh.cast::<Pool>()).stop() };
}

/// `<linux/rethook.h>`: the same, and it goes when the last call has returned.
///
/// # Safety
///
/// As for [`rethook_stop`]; nobody uses it any more, except for those with preemption off.
#[export]
unsafe extern "C" fn rethook_free(rh: *mut bindings::rethook) {
    // SAFETY: The caller guarantees that it is of `rethook_alloc()`, and so of `Pool::new()`, and that only those with preemption
    // off may still have it.
    unsafe { Pool::free(rh.cast()) };
}

/// `<linux/rethook.h>`: a node for a call that begins, or NULL.
///
/// # Safety
///
/// `rh` is from [`rethook_alloc`], and had not been freed when preemption was turned off, which it still is.
#[export]
#[link_section = ".kprobes.text"]
unsafe extern "C" fn rethook_try_get(rh: *mut bindings::rethook) -> *mut bindings::rethook_node {
    let pool: *mut Pool = rh.cast();
    // SAFETY: The caller guarantees that it is of `rethook_alloc()`, which returns a `Pool`, and has not been freed before this
    // context began, in which preemption is off: the memory stays for a grace period of RCU, and so for this context.
    unsafe {
        match (*pool).has_stopped() || !rethook::is_watched() {
            true => null_mut(),
            false => Pool::take(pool).cast(),
        }
    }
}

/// `<linux/rethook.h>`: gives a node back that no call was hooked with.
///
/// # Safety
///
/// `node` is from [`rethook_try_get`], and nobody has it any more. Preemption is off.
#[export]
#[link_section = ".kprobes.text"]
unsafe extern "C" fn rethook_recycle(node: *mut bindings::rethook_node) {
    // SAFETY: The caller guarantees that it has taken the node out, and by giving it back, that it uses it no longer.
    unsafe { Pool::give_back(node.cast()) };
}

/// `<linux/rethook.h>`: has the call that begins return to the handler first.
///
/// # Safety
///
/// `node` is from [`rethook_try_get`], and nobody else has it. `regs` are of the function that `current` is about to execute: at the stack pointer is
/// its return address. Preemption is off.
#[export]
#[link_section = ".kprobes.text"]
unsafe extern "C" fn rethook_hook(
    node: *mut bindings::rethook_node,
    regs: *mut bindings::pt_regs,
    _mcount: bool,
) {
    // SAFETY: The caller guarantees that it has taken the node out of its pool, and nobody else has it.
    unsafe { rethook::push(node.cast()) };
    // SAFETY: Just pushed; the caller guarantees what `regs` are.
    unsafe { rethook::divert(node.cast(), regs) };
}

/// For `return_trampoline.S`: a function with a diverted return has returned.
///
/// # Safety
///
/// `regs` are those of this return, in front of the word that `ret` is going to take.
#[no_mangle]
#[link_section = ".kprobes.text"]
unsafe extern "C" fn ferro_returned(regs: *mut bindings::pt_regs) {
    // SAFETY: The caller, `return_trampoline.S`, guarantees that they are those of this return, with room for a word after them.
    unsafe { rethook::has_returned(regs) };
}

/// `<linux/rethook.h>`: see [`rethook::return_address`].
///
/// Context: any.
///
/// # Safety
///
/// `task` is `current` or does not run; `*cursor` is NULL or what an earlier call left there for the same task.
#[export]
#[link_section = ".kprobes.text"]
unsafe extern "C" fn rethook_find_ret_addr(
    task: *mut bindings::task_struct,
    frame: c_ulong,
    cursor: *mut *mut bindings::llist_node,
) -> c_ulong {
    // SAFETY: The caller guarantees that nothing but this context changes the shadow stack, and that `*cursor` is one of its links.
    unsafe { rethook::return_address(task, frame, cursor) }
}

/// `<linux/rethook.h>`: a task is gone, and with it all calls that have not returned.
///
/// # Safety
///
/// `task` does not run any more.
#[export]
unsafe extern "C" fn rethook_flush_task(task: *mut bindings::task_struct) {
    // SAFETY: The caller guarantees that the task does not run any more.
    unsafe { rethook::flush(task) };
}

/// `<linux/kprobes.h>`.
///
/// # Safety
///
/// No requirement.
#[export]
unsafe extern "C" fn within_kprobe_blacklist(addr: usize) -> bool {
    blacklist::forbids(addr).is_some()
}

/// `<linux/kprobes.h>`: see [`blacklist::add`]. Returns the number of bytes, or an error.
///
/// Context: process; sleeps.
///
/// # Safety
///
/// No requirement.
#[export]
unsafe extern "C" fn kprobe_add_ksym_blacklist(entry: usize) -> c_int {
    match blacklist::add(entry) {
        Ok(size) => c_int::try_from(size).unwrap_or(c_int::MAX),
        Err(error) => error.to_errno(),
    }
}

/// `<linux/kprobes.h>`: the same for all symbols from `start` on up to `end`. What comes before one that fails has been added.
///
/// Context: process; sleeps.
///
/// # Safety
///
/// No requirement.
#[export]
unsafe extern "C" fn kprobe_add_area_blacklist(start: usize, end: usize) -> c_int {
    match blacklist::add_area(start, end) {
        Ok(()) => 0,
        Err(error) => error.to_errno(),
    }
}

/// For `blacklist.c`. Context: early initcall, once.
///
/// # Safety
///
/// Called once, before there are modules, and while the initialisation data is there.
#[export]
unsafe extern "C" fn ferro_blacklist_init() {
    // SAFETY: `blacklist.c` calls this once, before there are modules, and while the initialisation data is there.
    unsafe { blacklist::init() };
}

/// For `blacklist.c`: code of a module goes, its initialisation code or, if it `is_whole`, all of it.
///
/// # Safety
///
/// `module` is there until this returns.
#[export]
unsafe extern "C" fn ferro_blacklist_module_goes(module: *mut bindings::module, is_whole: bool) {
    match is_whole {
        // SAFETY: The caller guarantees that the module is there.
        true => blacklist::forget(|at| unsafe { bindings::ferro_in_module(at, module) }),
        // SAFETY: The caller guarantees that the module is there.
        false => blacklist::forget(|at| unsafe { bindings::ferro_in_init_text(at, module) }),
    }
}

/// `<linux/kprobes.h>`, for `kernel_text_address()`.
///
/// # Safety
///
/// No requirement.
#[export]
unsafe extern "C" fn __is_insn_slot_addr(_: *mut bindings::kprobe_insn_cache, addr: usize) -> bool {
    exec_pool::contains(addr)
}

/// For `kprobe_get_kallsym()`. Context: any.
///
/// # Safety
///
/// `addr` points to a place for an address, `detours` to one for a truth value.
#[export]
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
