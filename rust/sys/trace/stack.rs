// SPDX-License-Identifier: GPL-2.0

//! Stack traces.
//!
//! Contexts: any, NMI included.

use crate::bindings;
use kernel::ffi::c_uint;

/// Returns the room in `to`.
fn room(to: &[usize]) -> c_uint {
    to.len().try_into().unwrap_or(c_uint::MAX)
}

/// Limits a count to the room.
fn count(found: c_uint, to: &[usize]) -> usize {
    usize::try_from(found).unwrap_or(0).min(to.len())
}

/// Writes the kernel stack of the current task at `ip` with these registers: `ip`, then the return
/// addresses, innermost first. Returns their number. Wrong registers give a wrong or empty stack.
pub fn kernel(regs: &bindings::pt_regs, ip: usize, to: &mut [usize]) -> usize {
    let room = room(to);
    // SAFETY: The registers are only read. There is room for this many. The unwinder reads only
    // stacks that it knows, for any registers.
    let found = unsafe { bindings::ferro_stack_kernel(regs, ip, to.as_mut_ptr(), room) };
    count(found, to)
}

/// Writes the user stack of the current thread, by its frame pointers. Code that was compiled
/// without them is skipped, or ends the stack. Writes nothing for a kernel thread.
pub fn user(to: &mut [usize]) -> usize {
    let room = room(to);
    // SAFETY: There is room for this many. The stack is read as user memory, with faults handled.
    let found = unsafe { bindings::ferro_stack_user(to.as_mut_ptr(), room) };
    count(found, to)
}
