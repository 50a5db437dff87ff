// SPDX-License-Identifier: GPL-2.0

//! Instructions that do not fault.

use super::operands::Encoding;
use super::operands::Insn;

impl Insn {
    /// Returns true if the instruction is surely executed once the kernel reaches it. Such an
    /// instruction uses registers, its own constants, and at most the word at the stack pointer,
    /// without which the kernel cannot continue anyway. It does not divide, and needs no privilege
    /// or state. Returns false if that is unknown.
    ///
    /// The target of a branch may fault, but as another instruction.
    pub fn cannot_fault(&self) -> bool {
        let prefixes = self.prefixes();
        let plain = self.encoding() == Encoding::Legacy && !self.is_forced_emulation();
        // With some of these prefixes it is another or an undefined instruction.
        if !plain || prefixes.lock || prefixes.repeat.is_some() {
            return false;
        }
        match self.map() {
            0 => self.primary_cannot_fault(),
            1 => self.secondary_cannot_fault(),
            _ => false,
        }
    }

    /// Returns the member of a group, from ModRM, if that names a register.
    fn of_register(&self) -> Option<u8> {
        let modrm = self.modrm().filter(|modrm| modrm.mode() == 3)?;
        Some(modrm.reg())
    }

    fn primary_cannot_fault(&self) -> bool {
        let member = self.of_register();
        // Their operand size differs by vendor.
        let may_branch = !self.prefixes().operand_size;
        match self.opcode() {
            // add, or, adc, sbb, and, sub, xor, cmp: with ModRM, and with the accumulator.
            opcode @ 0x00..=0x3f if opcode & 7 < 4 => member.is_some(),
            opcode @ 0x00..=0x3f => opcode & 7 < 6,
            // push and pop of registers and of constants.
            0x50..=0x5f | 0x68 | 0x6a => true,
            // movsxd, imul, test, xchg, mov; the group with constants.
            0x63 | 0x69 | 0x6b | 0x80 | 0x81 | 0x83..=0x8b => member.is_some(),
            0x70..=0x7f | 0xe0..=0xe3 | 0xe8 | 0xe9 | 0xeb => may_branch,
            // lea accesses nothing; with a register it is undefined.
            0x8d => member.is_none(),
            // nop, xchg, cbw, cwd.
            0x90..=0x99 => true,
            // test and mov of constants.
            0xa8 | 0xa9 | 0xb0..=0xbf => true,
            // Shifts and rotations.
            0xc0 | 0xc1 | 0xd0..=0xd3 => member.is_some(),
            0xc6 | 0xc7 => member == Some(0),
            // cmc, clc, stc, cld, std.
            0xf5 | 0xf8 | 0xf9 | 0xfc | 0xfd => true,
            // test, not, neg, mul, imul; not div and idiv.
            0xf6 | 0xf7 => member.is_some_and(|member| member < 6),
            // inc and dec.
            0xfe | 0xff => member.is_some_and(|member| member < 2),
            _ => false,
        }
    }

    fn secondary_cannot_fault(&self) -> bool {
        let member = self.of_register();
        match self.opcode() {
            // A nop, which does not access its operand.
            0x1f => self.modrm().is_some_and(|modrm| modrm.reg() == 0),
            // cmov, setcc.
            0x40..=0x4f | 0x90..=0x9f => member.is_some(),
            0x80..=0x8f => !self.prefixes().operand_size,
            // bt, bts, btr, btc.
            0xa3 | 0xab | 0xb3 | 0xbb => member.is_some(),
            0xba => member.is_some_and(|member| member >= 4),
            // shld, shrd, imul, movzx, movsx, bsf, bsr.
            0xa4 | 0xa5 | 0xac | 0xad | 0xaf => member.is_some(),
            0xb6 | 0xb7 | 0xbc..=0xbf => member.is_some(),
            // cmpxchg, xadd.
            0xb0 | 0xb1 | 0xc0 | 0xc1 => member.is_some(),
            // bswap
            0xc8..=0xcf => true,
            _ => false,
        }
    }
}
