// SPDX-License-Identifier: GPL-2.0

//! Registers and ports of this CPU.
//!
//! Contexts: any, NMI included, on one CPU.

use ferro_core::rpn::Register;
use kernel::bindings;

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
    // SAFETY: Every CPU that this kernel runs on has the instruction.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Reads a port.
pub(crate) fn port_in(_permission: &Permission, port: u16, width: u8) -> u32 {
    // SAFETY: The user who loaded the program was permitted to use ports, and answers for the
    // effects.
    unsafe { bindings::ferro_dprobes_port_in(port, width.into()) }
}

/// Writes to a port.
pub(crate) fn port_out(_permission: &Permission, port: u16, width: u8, value: u32) {
    // SAFETY: The user who loaded the program was permitted to use ports, and answers for the
    // effects.
    unsafe { bindings::ferro_dprobes_port_out(port, width.into(), value) }
}
