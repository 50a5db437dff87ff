// SPDX-License-Identifier: GPL-2.0

//! Instructions that work on registers only, executed by changing these.
//!
//! A copy executes them as well. This is for who has something to do after the instruction: it saves leaving the trap for
//! the copy, and coming back.

use super::emulate::Machine;
use super::flow::Memory;
use super::parts::Insn;
use super::parts::Register;

/// The sign of a 64-bit number.
const TOP: u64 = 1 << 63;
/// CF, PF, AF, ZF, SF, OF.
const ARITHMETIC: u64 = 0x8d5;

/// An instruction on registers, of 32 or 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Compute {
    kind: Kind,
    to: Register,
    from: Source,
    wide: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Move,
    Add,
    Sub,
    And,
    Or,
    Xor,
    /// `sub` without its result.
    Compare,
    /// `and` without its result.
    Test,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Register(Register),
    Value(u64),
    /// The address of a memory operand, not what is there.
    Address(Memory),
}

impl Compute {
    /// Of an instruction of map 0 without prefixes for its operands, if it is one of the usual ones of this kind.
    pub(super) fn of(insn: &Insn) -> Option<Self> {
        let opcode = insn.opcode();
        let value = Source::Value(insn.immediate() as u64);
        let (kind, to, from) = match insn.modrm() {
            None => {
                let register = insn.base_register(opcode);
                match opcode {
                    0xb8..=0xbf => (Kind::Move, register, value),
                    0xa9 => (Kind::Test, Register::RAX, value),
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
                    let memory = insn.memory_operand()?;
                    (Kind::Move, reg, Source::Address(memory))
                } else if modrm.mode() != 3 {
                    return None;
                } else {
                    let rm = insn.base_register(modrm.rm());
                    match opcode {
                        0x89 => (Kind::Move, rm, Source::Register(reg)),
                        0x8b => (Kind::Move, reg, Source::Register(rm)),
                        0x85 => (Kind::Test, rm, Source::Register(reg)),
                        0x81 | 0x83 => (Kind::of_group(member)?, rm, value),
                        0xc7 if member == 0 => (Kind::Move, rm, value),
                        0xf7 if member < 2 => (Kind::Test, rm, value),
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

    /// Executes it. `next` is the address behind the instruction.
    #[inline]
    pub(super) fn run<M: Machine>(&self, next: u64, machine: &mut M) {
        let from = match self.from {
            Source::Register(register) => machine.register(register),
            Source::Value(value) => value,
            Source::Address(memory) => memory.address(next, machine),
        };
        // Numbers of 32 bits are calculated with in the upper half, where their sign and their carry are those of 64 bits.
        let shift = if self.wide { 0 } else { 32 };
        let b = from << shift;
        if self.kind == Kind::Move {
            machine.set_register(self.to, b >> shift);
            return;
        }
        let a = machine.register(self.to) << shift;
        let (result, carry, overflow) = match self.kind {
            Kind::Add => {
                let sum = a.wrapping_add(b);
                (sum, sum < a, (a ^ sum) & (b ^ sum))
            }
            Kind::Sub | Kind::Compare => {
                let difference = a.wrapping_sub(b);
                (difference, a < b, (a ^ b) & (a ^ difference))
            }
            Kind::And | Kind::Test => (a & b, false, 0),
            Kind::Or => (a | b, false, 0),
            Kind::Xor | Kind::Move => (a ^ b, false, 0),
        };
        let low = result >> shift;
        let half = match self.kind {
            Kind::Add | Kind::Sub | Kind::Compare => ((a ^ b ^ result) >> shift) & 0x10,
            _ => 0,
        };
        let flags = u64::from(carry)
            | parity(low)
            | half
            | u64::from(result == 0) << 6
            | (result & TOP) >> (63 - 7)
            | (overflow & TOP) >> (63 - 11);
        machine.set_flags(machine.flags() & !ARITHMETIC | flags);
        if !matches!(self.kind, Kind::Compare | Kind::Test) {
            machine.set_register(self.to, low);
        }
    }
}

impl Kind {
    /// A member of the group of `add`; not `adc` and `sbb`.
    fn of_group(member: u8) -> Option<Self> {
        Some(match member & 7 {
            0 => Self::Add,
            1 => Self::Or,
            4 => Self::And,
            5 => Self::Sub,
            6 => Self::Xor,
            7 => Self::Compare,
            _ => return None,
        })
    }
}

/// PF: whether the lowest byte has an even number of bits. The constant has the answer for each value of 4 bits.
#[inline]
fn parity(value: u64) -> u64 {
    let folded = (value ^ value >> 4) & 0xf;
    (0x9669 >> folded & 1) << 2
}
