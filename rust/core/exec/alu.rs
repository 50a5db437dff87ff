// SPDX-License-Identifier: GPL-2.0

//! Instructions that work on registers, or read or write memory once, executed in the trap.
//!
//! A copy could execute them as well. For probes with a post handler, this saves the return to the
//! copy and another trap. Instructions that both read and write memory are left to the copy,
//! because the two accesses must not be separated.

use super::machine::pop;
use super::machine::push;
use super::machine::Arithmetic;
use super::machine::Fault;
use super::machine::Machine;
use crate::insn::Encoding;
use crate::insn::Insn;
use crate::insn::Memory;
use crate::insn::Register;

/// CF, PF, AF, ZF, SF, OF.
const ARITHMETIC: u64 = 0x8d5;

/// An instruction of 32 or 64 bits with registers and at most one operand in memory, or a push or
/// pop of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compute {
    kind: Kind,
    to: Register,
    from: Source,
    wide: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Move,
    Push,
    Pop,
    Calculate(Arithmetic),
    /// Sets only the flags: `cmp` and `test`.
    Compare(Arithmetic),
    /// Compares, with the first operand in memory.
    CompareMemory(Arithmetic, Memory),
    /// Stores to memory.
    Store(Memory),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Register(Register),
    Value(u64),
    /// The address of a memory operand, not its contents.
    Address(Memory),
    /// The contents of a memory operand.
    Memory(Memory),
}

impl Compute {
    /// Returns the computation of an instruction at `address`, if the instruction is a common one
    /// of this kind.
    pub fn of(insn: &Insn, address: u64) -> Option<Self> {
        let prefixes = insn.prefixes();
        let plain = insn.encoding() == Encoding::Legacy && insn.map() == 0;
        if !plain || prefixes.lock || prefixes.operand_size || prefixes.repeat.is_some() {
            return None;
        }
        let opcode = insn.opcode();
        let value = Source::Value(insn.immediate() as u64);
        let (kind, to, from) = match insn.modrm() {
            None => {
                let register = insn.base_register(opcode);
                match opcode {
                    0x50..=0x57 => (Kind::Push, register, value),
                    0x58..=0x5f => (Kind::Pop, register, value),
                    0xb8..=0xbf => (Kind::Move, register, value),
                    0xa9 => (Kind::Compare(Arithmetic::And), Register::RAX, value),
                    _ if opcode & 0xc7 == 0x05 => {
                        (Kind::of_group(opcode >> 3)?, Register::RAX, value)
                    }
                    _ => return None,
                }
            }
            Some(modrm) => {
                let reg = insn.reg_register(modrm.reg());
                if modrm.mode() == 3 {
                    let rm = insn.base_register(modrm.rm());
                    Self::of_registers(insn, modrm.reg(), reg, rm)?
                } else {
                    Self::of_memory(insn, modrm.reg(), reg, memory(insn, address)?)?
                }
            }
        };
        Some(Self {
            kind,
            to,
            from,
            wide: insn.is_wide(),
        })
    }

    /// Handles an instruction with two registers, or with a register and a value.
    fn of_registers(
        insn: &Insn,
        member: u8,
        reg: Register,
        rm: Register,
    ) -> Option<(Kind, Register, Source)> {
        let opcode = insn.opcode();
        let value = Source::Value(insn.immediate() as u64);
        Some(match opcode {
            0x89 => (Kind::Move, rm, Source::Register(reg)),
            0x8b => (Kind::Move, reg, Source::Register(rm)),
            0x85 => (Kind::Compare(Arithmetic::And), rm, Source::Register(reg)),
            0x81 | 0x83 => (Kind::of_group(member)?, rm, value),
            0xc7 if member == 0 => (Kind::Move, rm, value),
            0xf7 if member < 2 => (Kind::Compare(Arithmetic::And), rm, value),
            _ if opcode & 0xc7 == 0x01 => (Kind::of_group(opcode >> 3)?, rm, Source::Register(reg)),
            _ if opcode & 0xc7 == 0x03 => (Kind::of_group(opcode >> 3)?, reg, Source::Register(rm)),
            _ => return None,
        })
    }

    /// Handles an instruction that reads or writes a memory operand, but not both, or calculates
    /// its address.
    fn of_memory(
        insn: &Insn,
        member: u8,
        reg: Register,
        memory: Memory,
    ) -> Option<(Kind, Register, Source)> {
        let opcode = insn.opcode();
        if opcode == 0x8d {
            let known = memory.base.is_none() && memory.index.is_none() && !memory.truncated;
            let address = match known {
                true => Source::Value(memory.displacement as u64),
                false => Source::Address(memory),
            };
            return Some((Kind::Move, reg, address));
        }
        if memory.segment.is_some() {
            return None;
        }
        let register = Source::Register(reg);
        let value = Source::Value(insn.immediate() as u64);
        let test = Kind::CompareMemory(Arithmetic::And, memory);
        let cmp = Kind::CompareMemory(Arithmetic::Sub, memory);
        Some(match opcode {
            0x8b => (Kind::Move, reg, Source::Memory(memory)),
            0x89 => (Kind::Store(memory), reg, register),
            0xc7 if member == 0 => (Kind::Store(memory), reg, value),
            0x85 => (test, reg, register),
            0xf7 if member < 2 => (test, reg, value),
            0x39 => (cmp, reg, register),
            0x81 | 0x83 if member == 7 => (cmp, reg, value),
            _ if opcode & 0xc7 == 0x03 => {
                (Kind::of_group(opcode >> 3)?, reg, Source::Memory(memory))
            }
            _ => return None,
        })
    }

    /// Returns true if it accesses memory other than the stack, and so may fault where a copy
    /// would.
    pub fn has_operand_in_memory(&self) -> bool {
        matches!(self.kind, Kind::CompareMemory(..) | Kind::Store(_))
            || matches!(self.from, Source::Memory(_))
    }

    /// Executes it; the next instruction follows. If an access faults, nothing has been changed.
    #[inline(always)]
    pub fn run<M: Machine>(&self, machine: &mut M) -> Result<(), Fault> {
        let from = match self.from {
            Source::Register(register) => machine.register(register),
            Source::Value(value) => value,
            Source::Address(memory) => memory.address(0, |register| machine.register(register)),
            Source::Memory(memory) => machine.read(
                memory.address(0, |register| machine.register(register)),
                self.wide,
            )?,
        };
        match self.kind {
            Kind::Move if self.wide => machine.set_register(self.to, from),
            Kind::Move => machine.set_register(self.to, from & 0xffff_ffff),
            Kind::Push => {
                let value = machine.register(self.to);
                push(machine, value)?;
            }
            Kind::Pop => {
                // The stack pointer is changed first, as it may be the popped register.
                let value = pop(machine, 0)?;
                machine.set_register(self.to, value);
            }
            Kind::Calculate(operation) => {
                let to = machine.register(self.to);
                let result = self.calculate(operation, to, from, machine);
                machine.set_register(self.to, result);
            }
            Kind::Compare(operation) => {
                let to = machine.register(self.to);
                self.calculate(operation, to, from, machine);
            }
            Kind::CompareMemory(operation, memory) => {
                let value = machine.read(
                    memory.address(0, |register| machine.register(register)),
                    self.wide,
                )?;
                self.calculate(operation, value, from, machine);
            }
            Kind::Store(memory) => {
                machine.write(
                    memory.address(0, |register| machine.register(register)),
                    from,
                    self.wide,
                )?;
            }
        }
        Ok(())
    }

    /// Sets the flags, and returns the result.
    #[inline(always)]
    fn calculate<M: Machine>(&self, operation: Arithmetic, a: u64, b: u64, machine: &mut M) -> u64 {
        let (result, flags) = M::calculate(operation, a, b, self.wide);
        machine.set_flags(machine.flags() & !ARITHMETIC | flags & ARITHMETIC);
        result
    }
}

/// Returns the memory operand of an instruction at `address`, without the instruction pointer.
fn memory(insn: &Insn, address: u64) -> Option<Memory> {
    let mut memory = insn.memory_operand()?;
    if let Some(target) = insn.rip_relative_target(address) {
        memory.rip_relative = false;
        memory.truncated = false;
        memory.displacement = target as i64;
    }
    Some(memory)
}

impl Kind {
    /// Returns a member of the group of `add`, except `adc` and `sbb`.
    fn of_group(member: u8) -> Option<Self> {
        Some(match member & 7 {
            0 => Self::Calculate(Arithmetic::Add),
            1 => Self::Calculate(Arithmetic::Or),
            4 => Self::Calculate(Arithmetic::And),
            5 => Self::Calculate(Arithmetic::Sub),
            6 => Self::Calculate(Arithmetic::Xor),
            7 => Self::Compare(Arithmetic::Sub),
            _ => return None,
        })
    }
}
