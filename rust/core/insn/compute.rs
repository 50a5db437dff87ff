// SPDX-License-Identifier: GPL-2.0

//! Instructions that work on registers only, executed by changing these.
//!
//! A copy executes them as well. This is for who has something to do after the instruction: it saves leaving the trap for
//! the copy, and coming back.

use super::emulate::pop;
use super::emulate::push;
use super::emulate::Fault;
use super::emulate::Machine;
use super::flow::Memory;
use super::parts::Encoding;
use super::parts::Insn;
use super::parts::Register;

/// CF, PF, AF, ZF, SF, OF.
const ARITHMETIC: u64 = 0x8d5;

/// An instruction on registers, of 32 or 64 bits, or one that pushes or pops a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compute {
    kind: Kind,
    to: Register,
    from: Source,
    wide: bool,
}

/// What the CPU calculates with two operands.
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Move,
    Push,
    Pop,
    Calculate(Arithmetic),
    /// Only for the flags: `cmp` and `test`.
    Compare(Arithmetic),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Register(Register),
    Value(u64),
    /// The address of a memory operand, not what is there.
    Address(Memory),
}

impl Compute {
    /// Of an instruction at `address`, if it is one of the usual ones of this kind.
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
                let member = modrm.reg();
                if opcode == 0x8d {
                    let from = match insn.rip_relative_target(address) {
                        Some(target) => Source::Value(target),
                        None => Source::Address(insn.memory_operand()?),
                    };
                    (Kind::Move, reg, from)
                } else if modrm.mode() != 3 {
                    return None;
                } else {
                    let rm = insn.base_register(modrm.rm());
                    match opcode {
                        0x89 => (Kind::Move, rm, Source::Register(reg)),
                        0x8b => (Kind::Move, reg, Source::Register(rm)),
                        0x85 => (Kind::Compare(Arithmetic::And), rm, Source::Register(reg)),
                        0x81 | 0x83 => (Kind::of_group(member)?, rm, value),
                        0xc7 if member == 0 => (Kind::Move, rm, value),
                        0xf7 if member < 2 => (Kind::Compare(Arithmetic::And), rm, value),
                        _ if opcode & 0xc7 == 0x01 => {
                            (Kind::of_group(opcode >> 3)?, rm, Source::Register(reg))
                        }
                        _ if opcode & 0xc7 == 0x03 => {
                            (Kind::of_group(opcode >> 3)?, reg, Source::Register(rm))
                        }
                        _ => return None,
                    }
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

    /// Executes it. What follows is the next instruction. When an access faults, nothing has been changed.
    #[inline(always)]
    pub fn run<M: Machine>(&self, machine: &mut M) -> Result<(), Fault> {
        let from = match self.from {
            Source::Register(register) => machine.register(register),
            Source::Value(value) => value,
            Source::Address(memory) => memory.address(0, machine),
        };
        match self.kind {
            Kind::Move if self.wide => machine.set_register(self.to, from),
            Kind::Move => machine.set_register(self.to, from & 0xffff_ffff),
            Kind::Push => {
                let value = machine.register(self.to);
                push(machine, value)?;
            }
            Kind::Pop => {
                // The stack pointer first, since it may be what is popped.
                let value = pop(machine, 0)?;
                machine.set_register(self.to, value);
            }
            Kind::Calculate(operation) => {
                let result = self.calculate(operation, from, machine);
                machine.set_register(self.to, result);
            }
            Kind::Compare(operation) => {
                self.calculate(operation, from, machine);
            }
        }
        Ok(())
    }

    /// Sets the flags, and returns the result.
    #[inline(always)]
    fn calculate<M: Machine>(&self, operation: Arithmetic, b: u64, machine: &mut M) -> u64 {
        let a = machine.register(self.to);
        let (result, flags) = M::calculate(operation, a, b, self.wide);
        machine.set_flags(machine.flags() & !ARITHMETIC | flags & ARITHMETIC);
        result
    }
}

impl Kind {
    /// A member of the group of `add`; not `adc` and `sbb`.
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
