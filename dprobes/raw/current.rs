// SPDX-License-Identifier: GPL-2.0

//! Registers and ports of this CPU, and the current task.
//!
//! Contexts: any, NMI included, on one CPU.

use ferro_dprobes_core::Register;
use ferro_sys::bindings;
use kernel::task::Task;

use super::permission::Permission;

/// Returns the value of a register that no saved state has.
pub(crate) fn register(register: Register) -> Option<u64> {
    let mut value = 0;
    let number = register.number().into();
    // SAFETY: `value` is a variable of this function; any number is allowed.
    unsafe { bindings::ferro_dprobes_register(number, &raw mut value) }.then_some(value as u64)
}

/// Returns the time stamp counter.
pub(crate) fn tsc() -> u64 {
    // SAFETY: Every x86-64 CPU has the instruction.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Reads a port.
pub(crate) fn port_in(_permission: &Permission, port: u16, width: u8) -> u32 {
    // SAFETY: The loading user was permitted to use ports, and answers for the effects.
    unsafe { bindings::ferro_dprobes_port_in(port, width.into()) }
}

/// Writes to a port.
pub(crate) fn port_out(_permission: &Permission, port: u16, width: u8, value: u32) {
    // SAFETY: The loading user was permitted to use ports, and answers for the effects.
    unsafe { bindings::ferro_dprobes_port_out(port, width.into(), value) }
}

/// Returns the address of the current task.
pub(crate) fn task() -> usize {
    Task::current_raw().addr()
}

/// Returns the IDs of the current process and thread.
#[inline]
pub(crate) fn ids() -> (u32, u32) {
    let task = Task::current_raw();
    // SAFETY: The current task is live, and the ID of its process does not change.
    let process = unsafe { (*task).tgid };
    // SAFETY: The current task is live, and its ID does not change.
    let thread = unsafe { (*task).pid };
    (process.unsigned_abs(), thread.unsigned_abs())
}

/// Returns the user ID of the current task.
pub(crate) fn uid() -> u32 {
    // SAFETY: Reads the credentials of the current task, which only it changes.
    unsafe { bindings::ferro_dprobes_uid() }
}
