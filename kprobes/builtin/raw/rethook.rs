// SPDX-License-Identifier: GPL-2.0

//! Calls with a diverted return, in place of the kernel's rethook. The trampoline's name and the
//! structures are rethook's, for the unwinder, the exit of tasks, and `<linux/kprobes.h>`.
//! `exports.rs` has rethook's functions, for other users in the kernel.
//!
//! A trampoline's address replaces a call's return address on the stack. The original one is kept
//! in an instance that is pushed on a list of the task: a shadow stack, which the unwinder reads.
//! Returning pops the instance and calls a handler. Instances are from a preallocated [`Pool`]. All
//! of this is in the kernel image, so that calls can return after the engine has been unloaded.
//!
//! Contexts: hooking and returning any with preemption off, NMI included.

use core::mem::offset_of;
use core::ptr::null_mut;

use ferro_sys::bindings;
use ferro_sys::cpu::preempt::PreemptOff;
use ferro_sys::sync::shared_word;
use ferro_sys::this_cpu;
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

/// Returns the newest link of a task's shadow stack.
#[inline(always)]
fn top_of(task: *mut bindings::task_struct) -> *mut *mut Link {
    task.wrapping_byte_add(bindings::FERRO_OFFSET_task_struct_rethooks as usize)
        .cast()
}

#[inline(always)]
fn current_top() -> *mut *mut Link {
    // SAFETY: A per-CPU pointer, which is the running task's own on any CPU.
    top_of(unsafe { this_cpu!(load current_task) } as *mut bindings::task_struct)
}

/// Returns the node that contains a link.
#[inline(always)]
fn node_of(link: *mut Link) -> *mut Node {
    link.wrapping_byte_sub(offset_of!(Node, link)).cast()
}

/// Finds the first node for the frame, starting at the link that `*from` points to. Returns NULL if
/// there is none.
///
/// # Safety
///
/// `from` is the top or a link of a shadow stack that no other code changes.
#[inline(always)]
unsafe fn find(from: *mut *mut Link, frame: usize) -> *mut Node {
    // SAFETY: The caller guarantees that it is a word of a shadow stack, which no other code
    // changes.
    let mut link = unsafe { shared_word::load(from) };
    while !link.is_null() {
        let node = node_of(link);
        // SAFETY: A link of the list is in a node, which stays as long as it is on the list: the
        // caller guarantees that no code takes it off.
        unsafe {
            if (*node).frame == frame {
                return node;
            }
            link = (*node).link.0;
        }
    }
    null_mut()
}

/// Gives back the nodes that are newer than `end`, which is a link of the list or NULL.
///
/// # Safety
///
/// `top` is the top of a shadow stack that no other code changes. Preemption is off.
#[inline(always)]
unsafe fn drop_until(top: *mut *mut Link, end: *mut Link) {
    // SAFETY: The caller guarantees that it is the top of a list which no other code changes. A
    // node on the list belongs to its task until it is taken off, and then has no owner, so it can
    // be given back: preemption is off, and its link has been read.
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

/// Returns true if RCU is watching, so that a wait for running calls includes a call that begins
/// here. Always true in configurations where calls begin only where RCU is watching.
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

/// Pushes a node on the current task's shadow stack, without a frame yet. The exit of the task
/// gives it back, too.
///
/// # Safety
///
/// `node` was taken from its pool, and no other code has it.
#[inline(always)]
pub(crate) unsafe fn push(node: *mut Node) {
    let top = current_top();
    // SAFETY: The caller guarantees that no other code has the node. The list is the running
    // task's, so only NMIs and interrupts run between these stores, and they leave the list
    // unchanged when they return.
    unsafe {
        // Not the address of a stack word.
        (*node).frame = 0;
        (*node).link.0 = *top;
        shared_word::store_release(top, &raw mut (*node).link);
    }
}

/// Pops a node and gives it back.
///
/// # Safety
///
/// [`push`] has put `node` on this task's shadow stack, and all calls that have begun since have
/// returned. Preemption is off.
#[inline(always)]
pub(crate) unsafe fn pop(node: *mut Node) {
    // SAFETY: The caller guarantees that the node is on this task's list, and the newest there; no
    // other code changes that list.
    unsafe { drop_until(current_top(), (*node).link.0) };
}

/// Diverts the return of a call that begins. `regs` are the registers at the entry of the function,
/// or at its ftrace site: the return address is at the stack pointer.
///
/// # Safety
///
/// [`push`] has put `node` on the shadow stack. `regs` are the registers of the function that
/// `current` is about to execute.
#[inline(always)]
pub(crate) unsafe fn divert(node: *mut Node, regs: *mut bindings::pt_regs) {
    // SAFETY: The caller guarantees that the registers are those of a function that is about to
    // run. So its return address is at the stack pointer, which this task alone uses. The caller
    // also guarantees that the node is on this task's shadow stack, which no other code changes.
    unsafe {
        let frame = (*regs).sp;
        let slot = frame as *mut usize;
        let ret_addr = *slot;
        (*node).ret_addr = ret_addr;
        (*node).shares_frame = 0;
        if ret_addr == trampoline() {
            share(node, frame);
        }
        // The unwinder finds the complete node as soon as it finds the trampoline.
        shared_word::store_release(&raw mut (*node).frame, frame);
        slot.write_volatile(trampoline());
    }
}

/// Copies the original return address from the older node of a call that is already diverted.
///
/// # Safety
///
/// `node` is on the running task's shadow stack, and no other code changes that.
#[cold]
#[link_section = ".kprobes.text"]
unsafe fn share(node: *mut Node, frame: usize) {
    // SAFETY: The caller guarantees that the node is on this task's list, which no other code
    // changes; the node found is on it, too.
    unsafe {
        let older = find((&raw mut (*node).link).cast(), frame);
        if !older.is_null() {
            (*node).ret_addr = (*older).ret_addr;
            (*node).shares_frame = 1;
        }
    }
}

/// Handles a diverted return. The word after the registers on the stack receives the address that
/// `ret` is going to take.
///
/// # Safety
///
/// `regs` are the registers of this return, in front of that word.
#[inline(always)]
pub(crate) unsafe fn handle_return(regs: *mut bindings::pt_regs) {
    // Nodes stay until this is dropped.
    let preempt = PreemptOff::new();
    let top = current_top();
    // SAFETY: The caller guarantees that these are the registers of this return, with room for a
    // word after them: both are on this task's stack, and no other code uses them. Nodes on the
    // task's list stay there until `drop_until()` takes them off; each node has a call, and its
    // pool stays as long. The running probe is restored after the handlers have returned.
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

        // A stack trace needs one or the other at all times.
        slot.write_volatile(ret_addr);
        // Newer calls that have not returned never will, because the caller of this one continues.
        drop_until(top, (*last).link.0);
    }
    drop(preempt);
}

#[cold]
fn lost() -> ! {
    panic!("kretprobes: the return address of a probed function is lost");
}

/// Returns the original return address of the call with a diverted one at `frame`, or 0. `cursor`
/// saves the position of the search.
///
/// Context: any.
///
/// # Safety
///
/// `task` is `current` or does not run; `*cursor` is NULL, or the value that an earlier call stored
/// there for the same task.
#[inline(always)]
pub(crate) unsafe fn return_address(
    task: *mut bindings::task_struct,
    frame: usize,
    cursor: *mut *mut bindings::llist_node,
) -> usize {
    // SAFETY: A per-CPU pointer, which is the running task's own on any CPU.
    let is_current = task as usize == unsafe { this_cpu!(load current_task) };
    // SAFETY: The caller guarantees that the task is valid and that its list does not change: the
    // task is this context's, or does not run. `cursor` is not NULL where it is used, and its word
    // is a link of that list, or NULL.
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

/// Drops the unreturned calls of a dead task.
///
/// # Safety
///
/// `task` never runs again.
pub(crate) unsafe fn flush(task: *mut bindings::task_struct) {
    let _preempt = PreemptOff::new();
    // SAFETY: The caller guarantees that the task never runs again, so that no other code changes
    // its list.
    unsafe { drop_until(top_of(task), null_mut()) };
}
