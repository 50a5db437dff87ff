// SPDX-License-Identifier: GPL-2.0

//! Calls whose return is diverted, in the place of the kernel's rethook: with its trampoline's name and structures, for
//! the unwinder, the exit of tasks, and `<linux/kprobes.h>`; and with its functions, for others in the kernel (`exports.rs`).
//!
//! A call's return address on the stack is exchanged for that of a trampoline, and kept in an instance that is pushed
//! on a list of the task: a shadow stack, which the unwinder reads. Returning pops it and calls a handler. Instances
//! come from a [`Pool`] that was filled before; all of this is in the kernel image, so that calls may return when the
//! engine has gone.
//!
//! Contexts: hooking and returning any with preemption off, NMI included.

use core::mem::offset_of;
use core::ptr::null_mut;

use ferro_sys::cpu::preempt::PreemptOff;
use ferro_sys::sync::shared_word;
use ferro_sys::this_cpu;
use kernel::bindings;
use kernel::ffi::c_void;
use kernel::prelude::*;

use super::current_kprobe;
use super::instance_pool::Link;
use super::instance_pool::Node;
use super::instance_pool::Pool;

extern "C" {
    /// `<linux/rethook.h>`; in `return_trampoline.S`.
    fn arch_rethook_trampoline();
    /// `asm/current.h`
    static mut current_task: *mut c_void;
}

fn trampoline() -> usize {
    arch_rethook_trampoline as unsafe extern "C" fn() as usize
}

/// The newest link of a task's shadow stack.
#[inline(always)]
fn top_of(task: *mut bindings::task_struct) -> *mut *mut Link {
    task.wrapping_byte_add(bindings::FERRO_OFFSET_task_struct_rethooks as usize)
        .cast()
}

#[inline(always)]
fn current_top() -> *mut *mut Link {
    // SAFETY: A per-CPU pointer, which is the running task's own wherever that runs.
    top_of(unsafe { this_cpu!(load current_task) } as *mut bindings::task_struct)
}

/// The node that a link is part of.
#[inline(always)]
fn node_of(link: *mut Link) -> *mut Node {
    link.wrapping_byte_sub(offset_of!(Node, link)).cast()
}

/// The node after the link that `from` points to which is for the frame, or NULL.
///
/// # Safety
///
/// `from` is the top or a link of a shadow stack that nobody else changes.
#[inline(always)]
unsafe fn find(from: *mut *mut Link, frame: usize) -> *mut Node {
    // SAFETY: The caller guarantees that it is a word of a shadow stack, which nobody else changes.
    let mut link = unsafe { shared_word::load(from) };
    while !link.is_null() {
        let node = node_of(link);
        // SAFETY: A link of the list is in a node, which stays as long as it is on the list: the caller guarantees that nobody takes
        // it off.
        unsafe {
            if (*node).frame == frame {
                return node;
            }
            link = (*node).link.0;
        }
    }
    null_mut()
}

/// Gives the nodes back that are newer than `end`, a link of the list or its end.
///
/// # Safety
///
/// `top` is that of a shadow stack that nobody else changes. Preemption is off.
#[inline(always)]
unsafe fn drop_until(top: *mut *mut Link, end: *mut Link) {
    // SAFETY: The caller guarantees that it is the top of a list which nobody else changes. A node on it is its task's until it is
    // taken off, and then nobody's, so that it can be given back: preemption is off, and its link has been read.
    unsafe {
        let mut link = *top;
        shared_word::store_release(top, end);
        while link != end {
            let node = node_of(link);
            link = (*node).link.0;
            Pool::give_back(node);
        }
    }
}

/// Whether what waits for calls can wait for one that begins here. Only where the configuration lets them begin anywhere else.
#[inline(always)]
pub(crate) fn is_watched() -> bool {
    #[cfg(any(
        CONFIG_FTRACE_VALIDATE_RCU_IS_WATCHING,
        CONFIG_KPROBE_EVENTS_ON_NOTRACE
    ))]
    // SAFETY: Has no requirement.
    return unsafe { bindings::rcu_is_watching() };
    #[cfg(not(any(
        CONFIG_FTRACE_VALIDATE_RCU_IS_WATCHING,
        CONFIG_KPROBE_EVENTS_ON_NOTRACE
    )))]
    true
}

/// Puts a node on the shadow stack of the running task, for no frame yet: it is given back when the task has ended, too.
///
/// # Safety
///
/// `node` was taken from its pool, and is nobody else's.
#[inline(always)]
pub(crate) unsafe fn push(node: *mut Node) {
    let top = current_top();
    // SAFETY: The caller guarantees that nobody else has the node. The list is the running task's, so that only NMIs and interrupts
    // come between these stores, and leave it as it was when they return.
    unsafe {
        // No word of a stack is there.
        (*node).frame = 0;
        (*node).link.0 = *top;
        shared_word::store_release(top, &raw mut (*node).link);
    }
}

/// Takes a node off again, and gives it back.
///
/// # Safety
///
/// [`push`] has put `node` on this task's shadow stack, and all calls that have begun since have returned. Preemption is off.
#[inline(always)]
pub(crate) unsafe fn pop(node: *mut Node) {
    // SAFETY: The caller guarantees that the node is on this task's list, and the newest there; that list nobody else changes.
    unsafe { drop_until(current_top(), (*node).link.0) };
}

/// Diverts the return of a call that begins. `regs` are those at the entry of the function, or at its ftrace site: at
/// the stack pointer is the return address.
///
/// # Safety
///
/// [`push`] has put `node` on the shadow stack. `regs` are of the function that `current` is about to execute.
#[inline(always)]
pub(crate) unsafe fn divert(node: *mut Node, regs: *mut bindings::pt_regs) {
    // SAFETY: The caller guarantees that the registers are of a function that is about to run, so that its return address is at the
    // stack pointer, which this task alone uses; and that the node is on this task's shadow stack, where nobody else changes it.
    unsafe {
        let frame = (*regs).sp;
        let slot = frame as *mut usize;
        let ret_addr = *slot;
        (*node).ret_addr = ret_addr;
        (*node).shares_frame = 0;
        if ret_addr == trampoline() {
            share(node, frame);
        }
        // The unwinder finds the node, complete, as soon as it finds the trampoline.
        shared_word::store_release(&raw mut (*node).frame, frame);
        slot.write_volatile(trampoline());
    }
}

/// The return of this call is diverted already: the real address is that of the older node.
///
/// # Safety
///
/// `node` is on the running task's shadow stack, and nobody else changes that.
#[cold]
#[link_section = ".kprobes.text"]
unsafe fn share(node: *mut Node, frame: usize) {
    // SAFETY: The caller guarantees that the node is on this task's list, which nobody else changes; what is found is on it, too.
    unsafe {
        let older = find((&raw mut (*node).link).cast(), frame);
        if !older.is_null() {
            (*node).ret_addr = (*older).ret_addr;
            (*node).shares_frame = 1;
        }
    }
}

/// A function with a diverted return has returned. Behind the registers on the stack is where the address goes that `ret` is
/// going to take.
///
/// # Safety
///
/// `regs` are those of this return, in front of that word.
#[inline(always)]
pub(crate) unsafe fn has_returned(regs: *mut bindings::pt_regs) {
    // Nodes stay as long as this lasts.
    let preempt = PreemptOff::new();
    let top = current_top();
    // SAFETY: The caller guarantees that they are the registers of this return, with room for a word after them: both are on this
    // task's stack, and nobody else's. What is on the task's list stays there until `drop_until()` takes it off; each node has a
    // call, and its pool stays as long. What runs is what ran before, once the handlers have returned.
    unsafe {
        let slot = regs.add(1).cast::<usize>();
        let frame = slot as usize;
        (*regs).sp = frame.wrapping_add(size_of::<usize>());
        let first = find(top, frame);
        if first.is_null() {
            lost();
        }
        let ret_addr = (*first).ret_addr;
        (*regs).ip = ret_addr;

        let interrupted = current_kprobe::get();
        let mut last = first;
        loop {
            (*(*last).pool).call(last, regs);
            if (*last).shares_frame == 0 {
                break;
            }
            let older = find((&raw mut (*last).link).cast(), frame);
            if older.is_null() {
                break;
            }
            last = older;
        }
        current_kprobe::set(interrupted);

        // A stack trace needs one or the other all the time.
        slot.write_volatile(ret_addr);
        // Newer calls than this one which have not returned never will: this one's caller is going on.
        drop_until(top, (*last).link.0);
    }
    drop(preempt);
}

#[cold]
fn lost() -> ! {
    panic!("kretprobes: nobody knows where a probed function returns to");
}

/// The real return address of the call whose diverted one is at `frame`, or 0. `cursor` is where the search goes on.
///
/// Context: any.
///
/// # Safety
///
/// `task` is `current` or does not run; `*cursor` is NULL or what an earlier call left there for the same task.
#[inline(always)]
pub(crate) unsafe fn return_address(
    task: *mut bindings::task_struct,
    frame: usize,
    cursor: *mut *mut bindings::llist_node,
) -> usize {
    // SAFETY: A per-CPU pointer, which is the running task's own wherever that runs.
    let is_current = task as usize == unsafe { this_cpu!(load current_task) };
    // SAFETY: The caller guarantees that the task is there and that its list does not change: it is this context's, or does not run.
    // `cursor` is not NULL where it is used, and its word is a link of that list, or NULL.
    unsafe {
        let runs = (*task).__state == bindings::TASK_RUNNING;
        if cursor.is_null() || (runs && !is_current) {
            return 0;
        }
        let from = match (*cursor).is_null() {
            true => top_of(task),
            false => (*cursor).cast(),
        };
        let node = find(from, frame);
        if node.is_null() {
            return 0;
        }
        *cursor = (&raw mut (*node).link).cast();
        (*node).ret_addr
    }
}

/// A task is gone, and with it all calls that have not returned.
///
/// # Safety
///
/// `task` does not run any more.
pub(crate) unsafe fn flush(task: *mut bindings::task_struct) {
    let _preempt = PreemptOff::new();
    // SAFETY: The caller guarantees that the task does not run any more, so that nobody else changes its list.
    unsafe { drop_until(top_of(task), null_mut()) };
}
