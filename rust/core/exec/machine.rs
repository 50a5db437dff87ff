// SPDX-License-Identifier: GPL-2.0

//! Registers and memory on which instructions are executed.

use crate::insn::Register;

/// A calculation with two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arithmetic {
    /// `add`
    Add,
    /// `sub`
    Sub,
    /// `and`
    And,
    /// `or`
    Or,
    /// `xor`
    Xor,
}

/// A failed access to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Address that was read or written.
    pub address: u64,
}

/// Registers and memory for an emulation.
pub trait Machine {
    /// Returns one of the first 16 registers. The stack pointer belongs to the interrupted code.
    fn register(&self, register: Register) -> u64;
    /// Sets a register.
    fn set_register(&mut self, register: Register, value: u64);
    /// Returns RFLAGS.
    fn flags(&self) -> u64;
    /// Sets RFLAGS.
    fn set_flags(&mut self, flags: u64);
    /// Reads 8 bytes, if `wide`, or 4. Has no effect if it faults.
    fn read(&mut self, address: u64, wide: bool) -> Result<u64, Fault>;
    /// Writes 8 bytes, if `wide`, or 4. Has no effect if it faults.
    fn write(&mut self, address: u64, value: u64, wide: bool) -> Result<(), Fault>;
    /// Returns the result and RFLAGS of an instruction with these operands of 64 bits if `wide`,
    /// otherwise with their lower 32.
    fn calculate(operation: Arithmetic, a: u64, b: u64, wide: bool) -> (u64, u64);
    /// Writes the word on top of the stack: at the stack pointer or below it.
    fn write_stack(&mut self, address: u64, value: u64) -> Result<(), Fault>;
}

/// Pushes a value.
pub(super) fn push<M: Machine>(machine: &mut M, value: u64) -> Result<(), Fault> {
    let top = machine.register(Register::RSP).wrapping_sub(8);
    machine.write_stack(top, value)?;
    machine.set_register(Register::RSP, top);
    Ok(())
}

/// Pops a value, and `more` bytes after it.
pub(super) fn pop<M: Machine>(machine: &mut M, more: u16) -> Result<u64, Fault> {
    let top = machine.register(Register::RSP);
    let value = machine.read(top, true)?;
    let above = top.wrapping_add(8).wrapping_add(u64::from(more));
    machine.set_register(Register::RSP, above);
    Ok(value)
}
