// SPDX-License-Identifier: GPL-2.0

//! Decoded instructions and their parts.

use super::MAX_LEN;

/// A general register, by its number: 0 to 15 are rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8 to
/// r15; up to 31 are those of APX.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Register(u8);

impl Register {
    /// The accumulator.
    pub const RAX: Self = Self(0);
    /// The counter of loops.
    pub const RCX: Self = Self(1);
    /// The stack pointer.
    pub const RSP: Self = Self(4);

    /// Returns the register of a number, which is taken modulo 32.
    pub fn new(number: u8) -> Self {
        Self(number & 31)
    }

    /// Returns its number, `0..32`.
    #[inline]
    pub fn number(self) -> u8 {
        self.0
    }

    /// Returns true if only APX has it.
    pub fn is_extended(self) -> bool {
        self.0 >= 16
    }
}

/// A repeat prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// F2: `repne`, `bnd`, `xacquire`, or part of an SSE opcode.
    F2,
    /// F3: `rep`, `xrelease`, or part of an opcode.
    F3,
}

/// A segment with a base other than 0 in 64-bit mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Segment {
    /// Prefix 64.
    Fs,
    /// Prefix 65.
    Gs,
}

/// Legacy prefixes. The ones of es, cs, ss and ds have no effect in 64-bit mode and are left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prefixes {
    /// 66.
    pub operand_size: bool,
    /// 67.
    pub address_size: bool,
    /// F0.
    pub lock: bool,
    /// The last one of F2 and F3.
    pub repeat: Option<Repeat>,
    /// The last one of 64 and 65.
    pub segment: Option<Segment>,
}

impl Prefixes {
    /// Records a prefix; returns false if the byte is not one.
    pub(super) fn take(&mut self, byte: u8) -> bool {
        match byte {
            0x26 | 0x2e | 0x36 | 0x3e => (),
            0x64 => self.segment = Some(Segment::Fs),
            0x65 => self.segment = Some(Segment::Gs),
            0x66 => self.operand_size = true,
            0x67 => self.address_size = true,
            0xf0 => self.lock = true,
            0xf2 => self.repeat = Some(Repeat::F2),
            0xf3 => self.repeat = Some(Repeat::F3),
            _ => return false,
        }
        true
    }
}

/// Encoding of the opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// With escapes 0f, 0f 38, 0f 3a, and optionally REX.
    Legacy,
    /// With D5 (APX): maps 0 and 1.
    Rex2,
    /// With C4 or C5.
    Vex,
    /// With 62.
    Evex,
    /// With 8F (AMD).
    Xop,
}

/// A ModRM byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModRm(pub u8);

impl ModRm {
    /// Returns the mode: 3 is a register operand, otherwise memory.
    pub fn mode(self) -> u8 {
        self.0 >> 6
    }

    /// Returns the register, or the member of a group.
    pub fn reg(self) -> u8 {
        (self.0 >> 3) & 7
    }

    /// Returns the register or memory operand.
    pub fn rm(self) -> u8 {
        self.0 & 7
    }
}

/// Position of a part of an instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Field {
    /// Offset of its first byte.
    pub at: u8,
    /// Number of bytes; 0 if the part is missing.
    pub len: u8,
}

/// A decoded instruction, with a copy of its bytes.
///
/// # Invariants
///
/// `len` is `1..=15`, the bytes after it are 0, and every [`Field`] is within `len`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Insn {
    pub(super) bytes: [u8; MAX_LEN],
    pub(super) len: u8,
    pub(super) prefixes: Prefixes,
    /// Bits of REX, or of REX2's second byte: W is 8; R, X and B are 4, 2, 1 and 0x40, 0x20, 0x10.
    pub(super) rex: u8,
    pub(super) forced_emulation: bool,
    pub(super) encoding: Encoding,
    pub(super) map: u8,
    pub(super) opcode_at: u8,
    pub(super) modrm: Field,
    pub(super) memory: bool,
    pub(super) displacement: Field,
    pub(super) immediate: Field,
}

impl Insn {
    /// Returns the number of bytes, `1..=15`.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        usize::from(self.len)
    }

    /// Returns the bytes.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len()).unwrap_or(&self.bytes)
    }

    /// Returns the legacy prefixes.
    pub fn prefixes(&self) -> Prefixes {
        self.prefixes
    }

    /// Returns the encoding of the opcode.
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// Returns the opcode map: 0 for one byte, 1 for 0f, 2 for 0f 38, 3 for 0f 3a; for VEX, EVEX
    /// and XOP the number in the prefix.
    pub fn map(&self) -> u8 {
        self.map
    }

    /// Returns the opcode in its map. For a 3DNow! instruction it is 0f, and the suffix is the
    /// immediate.
    pub fn opcode(&self) -> u8 {
        self.byte(self.opcode_at)
    }

    /// Returns the position of the opcode, without its escapes; always one byte.
    pub fn opcode_field(&self) -> Field {
        Field {
            at: self.opcode_at,
            len: 1,
        }
    }

    /// Returns the ModRM byte.
    pub fn modrm(&self) -> Option<ModRm> {
        (self.modrm.len != 0).then(|| ModRm(self.byte(self.modrm.at)))
    }

    /// Returns the position of the ModRM byte.
    pub fn modrm_field(&self) -> Field {
        self.modrm
    }

    /// Returns the SIB byte, which follows ModRM.
    pub fn sib(&self) -> Option<u8> {
        let memory = self.modrm().filter(|_| self.memory)?;
        (memory.rm() == 4 && memory.mode() != 3).then(|| self.byte(self.modrm.at.saturating_add(1)))
    }

    /// Returns the position of the displacement: 1 or 4 bytes.
    pub fn displacement_field(&self) -> Field {
        self.displacement
    }

    /// Returns the signed displacement, in bytes; 0 if there is none.
    pub fn displacement(&self) -> i64 {
        self.signed(self.displacement)
    }

    /// Returns the position of the immediate: 1 to 8 bytes, also an absolute address, the distance
    /// of a branch, both operands of `enter`, and the suffix of 3DNow!.
    pub fn immediate_field(&self) -> Field {
        self.immediate
    }

    /// Returns the signed immediate; 0 if there is none.
    pub fn immediate(&self) -> i64 {
        self.signed(self.immediate)
    }

    /// Returns true if it begins with the signature by which a guest asks Xen or KVM to emulate the
    /// rest (`ud2` and three letters). The signature counts as a prefix, as in the kernel's
    /// decoder.
    pub fn is_forced_emulation(&self) -> bool {
        self.forced_emulation
    }

    /// Returns true if it has a memory operand relative to its own address.
    pub fn is_rip_relative(&self) -> bool {
        self.memory
            && self
                .modrm()
                .is_some_and(|modrm| modrm.mode() == 0 && modrm.rm() == 5)
    }

    /// Returns the address of the RIP-relative operand for an instruction at `address`, if it has
    /// one. With the prefix 67 it is truncated to 32 bits.
    pub fn rip_relative_target(&self, address: u64) -> Option<u64> {
        let target = self.next(address).wrapping_add_signed(self.displacement());
        self.is_rip_relative().then(|| self.truncated(target))
    }

    /// Returns the address after an instruction at `address`.
    pub fn next(&self, address: u64) -> u64 {
        address.wrapping_add(u64::from(self.len))
    }

    /// Returns an address, truncated to the instruction's address size.
    pub fn truncated(&self, address: u64) -> u64 {
        match self.prefixes.address_size {
            true => address & 0xffff_ffff,
            false => address,
        }
    }

    /// Returns REX.W, or its equivalent in other encodings.
    pub fn is_wide(&self) -> bool {
        self.rex & 8 != 0
    }

    /// Returns true if operands have 16 bits.
    pub fn is_word(&self) -> bool {
        self.prefixes.operand_size && !self.is_wide()
    }

    /// Returns true if it has a prefix that makes it another instruction in some maps: 66, f2 or
    /// f3.
    pub fn has_mandatory_prefix(&self) -> bool {
        self.prefixes.operand_size || self.prefixes.repeat.is_some()
    }

    /// Returns true for `jmpabs`, and false for the `mov` with the same opcode.
    pub fn is_jmpabs(&self) -> bool {
        self.encoding == Encoding::Rex2 && self.map == 0 && self.opcode() == 0xa1
    }

    /// Returns true if the opcode is in one of the old maps, which have the one-byte opcodes and
    /// the branches.
    pub fn is_legacy(&self) -> bool {
        matches!(self.encoding, Encoding::Legacy | Encoding::Rex2)
    }

    /// Returns the register of ModRM.rm, of an opcode or of SIB.base.
    pub fn base_register(&self, low: u8) -> Register {
        Register(low & 7 | (self.rex & 1) << 3 | (self.rex & 0x10))
    }

    /// Returns the register of ModRM.reg, for an instruction without REX2.
    pub fn reg_register(&self, low: u8) -> Register {
        Register(low & 7 | (self.rex & 4) << 1)
    }

    /// Returns the register of SIB.index.
    pub fn index_register(&self, low: u8) -> Register {
        Register(low & 7 | (self.rex & 2) << 2 | (self.rex & 0x20) >> 1)
    }

    fn byte(&self, at: u8) -> u8 {
        self.bytes.get(usize::from(at)).copied().unwrap_or(0)
    }

    /// Returns a field as a signed little-endian number.
    fn signed(&self, field: Field) -> i64 {
        let start = usize::from(field.at);
        let end = start.saturating_add(usize::from(field.len));
        let bytes = self.bytes.get(start..end).unwrap_or(&[]);
        let negative = bytes.last().is_some_and(|last| *last >= 0x80);
        let mut value = [if negative { 0xff } else { 0 }; 8];
        for (to, from) in value.iter_mut().zip(bytes) {
            *to = *from;
        }
        i64::from_le_bytes(value)
    }
}
