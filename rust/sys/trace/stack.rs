// SPDX-License-Identifier: GPL-2.0

//! The calls that have led to a place.
//!
//! Contexts: any, NMI included.

use kernel::bindings;
use kernel::ffi::c_uint;

/// How many fit.
fn room(to: &[usize]) -> c_uint {
    to.len().try_into().unwrap_or(c_uint::MAX)
}

/// No more than there is room for.
fn count(found: c_uint, to: &[usize]) -> usize {
    usize::try_from(found).unwrap_or(0).min(to.len())
}

/// Writes the calls that have led to `ip` in the kernel, where the current task has these registers: `ip`, then the addresses that
/// are returned to, the innermost first. Returns how many there are. Wrong registers give wrong calls, or none.
pub fn kernel(regs: &bindings::pt_regs, ip: usize, to: &mut [usize]) -> usize {
    let room = room(to);
    // SAFETY: The registers are read only. There is room for that many. The unwinder reads no other memory than stacks that it
    // knows, whatever the registers are.
    let found = unsafe { bindings::ferro_stack_kernel(regs, ip, to.as_mut_ptr(), room) };
    count(found, to)
}

/// Writes the same of the current thread in user space, by its frame pointers: code that the compiler has made without them is
/// skipped, or ends it. Nothing for a thread of the kernel.
pub fn user(to: &mut [usize]) -> usize {
    let room = room(to);
    // SAFETY: There is room for that many. The stack is read as user memory, with faults handled.
    let found = unsafe { bindings::ferro_stack_user(to.as_mut_ptr(), room) };
    count(found, to)
}
