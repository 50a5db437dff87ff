// SPDX-License-Identifier: GPL-2.0

//! Control flow after an instruction.

use super::operands::Insn;
use super::operands::ModRm;
use super::operands::Register;
use super::operands::Repeat;
use super::operands::Segment;

/// A condition of `jcc`, by the lowest 4 bits of its opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condition(u8);

impl Condition {
    /// Returns the condition of an opcode.
    pub fn of_opcode(opcode: u8) -> Self {
        Self(opcode & 0xf)
    }

    /// Returns true if it holds with these RFLAGS.
    #[inline]
    pub fn holds(self, flags: u64) -> bool {
        let flag = |bit: u32| flags & (1 << bit) != 0;
        let (carry, parity, zero) = (flag(0), flag(2), flag(6));
        let (sign, overflow) = (flag(7), flag(11));
        let holds = match self.0 >> 1 {
            0 => overflow,
            1 => carry,
            2 => zero,
            3 => carry || zero,
            4 => sign,
            5 => parity,
            6 => sign != overflow,
            _ => zero || sign != overflow,
        };
        // Each odd condition is the opposite of the one before.
        holds != (self.0 & 1 != 0)
    }
}

/// Condition on which a loop instruction jumps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoopKind {
    /// `loopne`: counts down; jumps while the counter is not 0 and ZF is clear.
    NotEqual,
    /// `loope`: counts down; jumps while the counter is not 0 and ZF is set.
    Equal,
    /// `loop`: counts down; jumps while the counter is not 0.
    Always,
    /// `jrcxz`: does not count; jumps when the counter is 0.
    CounterIsZero,
}

/// A memory operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// The base register.
    pub base: Option<Register>,
    /// Index register, and the shift of its value.
    pub index: Option<(Register, u32)>,
    /// Relative to the address after the instruction, without base and index.
    pub rip_relative: bool,
    /// Displacement in bytes.
    pub displacement: i64,
    /// Segment; its base is added.
    pub segment: Option<Segment>,
    /// True if the sum is truncated to 32 bits (prefix 67).
    pub truncated: bool,
}

impl Memory {
    /// Returns the address of an operand of an instruction that ends at `next`, with the values of
    /// registers, and 0 for the segment's base.
    #[inline]
    pub fn address(&self, next: u64, register: impl Fn(Register) -> u64) -> u64 {
        let origin = if self.rip_relative { next } else { 0 };
        let base = self.base.map_or(0, &register);
        let index = match self.index {
            Some((index, shift)) => register(index).wrapping_shl(shift),
            None => 0,
        };
        let sum = origin
            .wrapping_add(base)
            .wrapping_add(index)
            .wrapping_add_signed(self.displacement);
        match self.truncated {
            true => sum & 0xffff_ffff,
            false => sum,
        }
    }
}

/// Target of a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Distance in bytes from the address after the instruction.
    Relative(i64),
    /// An address in the instruction (`jmpabs`).
    Absolute(u64),
    /// The address in a register.
    Register(Register),
    /// The address in memory.
    Memory(Memory),
}

/// Control flow after an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// The next instruction.
    Next,
    /// `jmp`
    Jump(Target),
    /// `jcc`: the distance from the address after the instruction.
    JumpIf(Condition, i64),
    /// `loop`, `loope`, `loopne`, `jrcxz`: the distance from the address after the instruction.
    Loop(LoopKind, i64),
    /// `call`
    Call(Target),
    /// `ret`, and the number of bytes that it removes from the stack besides the address.
    Return(u16),
    /// A far jump.
    FarJump,
    /// A far call.
    FarCall,
    /// A far return.
    FarReturn,
    /// `iret`, `eretu`, `erets`, `uiret`
    InterruptReturn,
    /// `syscall`, `sysenter`
    SystemCall,
    /// `sysret`, `sysexit`
    SystemReturn,
    /// `int n`, `int3`, `int1`, and the vector.
    Interrupt(u8),
    /// `ud0`, `ud1`, `ud2`, `udb`: #UD.
    Undefined,
    /// `hlt`: an interrupt, then the next instruction.
    Halt,
    /// `xbegin`: the next instruction, or, if the transaction aborts, one at this distance from the
    /// address after the instruction.
    TransactionBegin(i64),
    /// `rsm`, `getsec`, `enclu`, `vmlaunch` and the like: other code in another mode.
    ModeSwitch,
}

impl Insn {
    /// Returns the control flow after it.
    pub fn flow(&self) -> Flow {
        match self.map() {
            0 if self.is_legacy() => self.flow_primary(),
            1 if self.is_legacy() => self.flow_secondary(),
            _ => Flow::Next,
        }
    }

    /// Returns the destination of the instruction at `address` if it is a relative or absolute
    /// branch and is taken.
    pub fn branch_target(&self, address: u64) -> Option<u64> {
        match self.flow() {
            Flow::Jump(Target::Absolute(target)) => Some(target),
            Flow::Jump(Target::Relative(distance))
            | Flow::Call(Target::Relative(distance))
            | Flow::JumpIf(_, distance)
            | Flow::Loop(_, distance)
            | Flow::TransactionBegin(distance) => {
                Some(self.next(address).wrapping_add_signed(distance))
            }
            _ => None,
        }
    }

    /// Returns true for a branch over a distance in the instruction.
    pub fn is_relative_branch(&self) -> bool {
        let fixed = matches!(self.flow(), Flow::Jump(Target::Absolute(_)));
        self.branch_target(0).is_some() && !fixed
    }

    fn flow_primary(&self) -> Flow {
        let distance = self.immediate();
        let opcode = self.opcode();
        match opcode {
            0x70..=0x7f => Flow::JumpIf(Condition::of_opcode(opcode), distance),
            0xa1 if self.is_jmpabs() => {
                Flow::Jump(Target::Absolute(u64::from_le_bytes(distance.to_le_bytes())))
            }
            0xc2 => Flow::Return(u16::try_from(distance & 0xffff).unwrap_or(0)),
            0xc3 => Flow::Return(0),
            0xc7 if self.modrm() == Some(ModRm(0xf8)) => Flow::TransactionBegin(distance),
            0xca | 0xcb => Flow::FarReturn,
            0xcc => Flow::Interrupt(3),
            0xcd => Flow::Interrupt(u8::try_from(distance & 0xff).unwrap_or(0)),
            0xcf => Flow::InterruptReturn,
            0xd6 => Flow::Undefined,
            0xe0 => Flow::Loop(LoopKind::NotEqual, distance),
            0xe1 => Flow::Loop(LoopKind::Equal, distance),
            0xe2 => Flow::Loop(LoopKind::Always, distance),
            0xe3 => Flow::Loop(LoopKind::CounterIsZero, distance),
            0xe8 => Flow::Call(Target::Relative(distance)),
            0xe9 | 0xeb => Flow::Jump(Target::Relative(distance)),
            0xf1 => Flow::Interrupt(1),
            0xf4 => Flow::Halt,
            0xff => match self.modrm().map(ModRm::reg) {
                Some(2) => Flow::Call(self.indirect_target()),
                Some(3) => Flow::FarCall,
                Some(4) => Flow::Jump(self.indirect_target()),
                Some(5) => Flow::FarJump,
                _ => Flow::Next,
            },
            _ => Flow::Next,
        }
    }

    fn flow_secondary(&self) -> Flow {
        let opcode = self.opcode();
        match opcode {
            0x01 => self.flow_of_group_7(),
            0x05 | 0x34 => Flow::SystemCall,
            0x07 | 0x35 => Flow::SystemReturn,
            0x0b | 0xb9 | 0xff => Flow::Undefined,
            0x37 | 0xaa => Flow::ModeSwitch,
            0x80..=0x8f => Flow::JumpIf(Condition::of_opcode(opcode), self.immediate()),
            _ => Flow::Next,
        }
    }

    /// Handles 0f 01. Its members with a register operand are instructions of their own.
    fn flow_of_group_7(&self) -> Flow {
        let repeat = self.prefixes().repeat;
        match self.modrm().map_or(0, |modrm| modrm.0) {
            // `eretu`, `erets`; without the prefix `clac`.
            0xca if repeat.is_some() => Flow::InterruptReturn,
            // `uiret`
            0xec if repeat == Some(Repeat::F3) => Flow::InterruptReturn,
            // `seamret`
            0xcd if self.prefixes().operand_size => Flow::ModeSwitch,
            // `vmlaunch`, `vmresume`, `enclu`, `vmrun`, `skinit`
            0xc2 | 0xc3 | 0xd7 | 0xd8 | 0xde => Flow::ModeSwitch,
            _ => Flow::Next,
        }
    }

    /// Returns the operand of an indirect branch.
    fn indirect_target(&self) -> Target {
        match (self.memory_operand(), self.modrm()) {
            (Some(memory), _) => Target::Memory(memory),
            (None, modrm) => Target::Register(self.base_register(modrm.map_or(0, ModRm::rm))),
        }
    }

    /// Returns the memory operand of ModRM, for an instruction of the old maps.
    pub fn memory_operand(&self) -> Option<Memory> {
        let modrm = self.modrm().filter(|modrm| modrm.mode() != 3)?;
        if !self.is_legacy() || !self.memory {
            return None;
        }
        let (mut base, mut index) = (Some(modrm.rm()), None);
        if let Some(sib) = self.sib() {
            base = Some(sib & 7);
            let register = self.index_register(sib >> 3);
            // The number of rsp stands for no index.
            index = (register != Register::RSP).then_some((register, u32::from(sib >> 6)));
        }
        if modrm.mode() == 0 && base == Some(5) {
            base = None;
        }
        Some(Memory {
            base: base.map(|low| self.base_register(low)),
            index,
            rip_relative: self.is_rip_relative(),
            displacement: self.displacement(),
            segment: self.prefixes().segment,
            truncated: self.prefixes().address_size,
        })
    }
}
