// SPDX-License-Identifier: GPL-2.0

//! Decoder of instructions.

use super::operands::Encoding;
use super::operands::Field;
use super::operands::Insn;
use super::operands::ModRm;
use super::operands::Prefixes;
use super::operands::Repeat;
use super::tables::is_hole;
use super::tables::layout;
use super::tables::Immediate;
use super::MAX_LEN;

/// Reason why bytes are not an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// The bytes end before the instruction.
    Truncated,
    /// The instruction is longer than 15 bytes.
    TooLong,
    /// An invalid opcode, or an invalid combination of prefixes, without a length.
    Undefined,
}

/// `ud2` and three letters: asks a hypervisor to emulate the next instruction.
const FORCED_EMULATION: [[u8; 5]; 2] = [
    [0x0f, 0x0b, b'x', b'e', b'n'],
    [0x0f, 0x0b, b'k', b'v', b'm'],
];

/// A position in the bytes of an instruction.
struct Cursor<'a> {
    text: &'a [u8],
    at: u8,
}

impl Cursor<'_> {
    fn peek(&self) -> Result<u8, DecodeError> {
        match self.text.get(usize::from(self.at)) {
            Some(&byte) => Ok(byte),
            None if usize::from(self.at) >= MAX_LEN => Err(DecodeError::TooLong),
            None => Err(DecodeError::Truncated),
        }
    }

    fn byte(&mut self) -> Result<u8, DecodeError> {
        let byte = self.peek()?;
        self.at = self.at.saturating_add(1);
        Ok(byte)
    }

    /// Skips `len` bytes.
    fn field(&mut self, len: u8) -> Result<Field, DecodeError> {
        let field = Field { at: self.at, len };
        self.at = self.at.saturating_add(len);
        match usize::from(self.at) {
            end if end > MAX_LEN => Err(DecodeError::TooLong),
            end if end > self.text.len() => Err(DecodeError::Truncated),
            _ => Ok(field),
        }
    }
}

impl Insn {
    /// Decodes the instruction at the start of `text`; later bytes are ignored.
    ///
    /// # Examples
    ///
    /// ```
    /// use ferro_core::insn::{DecodeError, Insn};
    ///
    /// // mov 0x10(%rip), %rax
    /// let insn = Insn::decode(&[0x48, 0x8b, 0x05, 0x10, 0, 0, 0, 0x90]).unwrap();
    /// assert_eq!(insn.len(), 7);
    /// assert_eq!(insn.rip_relative_target(0x1000), Some(0x1017));
    /// assert_eq!(Insn::decode(&[0x48, 0x8b]), Err(DecodeError::Truncated));
    /// ```
    pub fn decode(text: &[u8]) -> Result<Self, DecodeError> {
        let text = text.get(..MAX_LEN).unwrap_or(text);
        let mut at = Cursor { text, at: 0 };
        let mut insn = Self {
            bytes: [0; MAX_LEN],
            len: 0,
            prefixes: Prefixes::default(),
            rex: 0,
            forced_emulation: FORCED_EMULATION.iter().any(|p| text.starts_with(p)),
            encoding: Encoding::Legacy,
            map: 0,
            opcode_at: 0,
            modrm: Field::default(),
            memory: false,
            displacement: Field::default(),
            immediate: Field::default(),
        };
        if insn.forced_emulation {
            at.field(5)?;
        }
        let opcode = insn.opcode_from(&mut at)?;
        insn.operands_from(&mut at, opcode)?;
        insn.len = at.at;
        let text = text.get(..insn.len()).unwrap_or(text);
        for (to, from) in insn.bytes.iter_mut().zip(text) {
            *to = *from;
        }
        // INVARIANT: the cursor has passed `len` bytes, at most 15, and each field is among them.
        Ok(insn)
    }

    /// Reads the prefixes and the opcode, which it returns.
    fn opcode_from(&mut self, at: &mut Cursor<'_>) -> Result<u8, DecodeError> {
        let mut rex = None;
        let first = loop {
            match at.byte()? {
                byte if self.prefixes.take(byte) => rex = None,
                // Effective only right before the opcode.
                byte @ 0x40..=0x4f => rex = Some(byte & 0xf),
                byte => break byte,
            }
        };
        self.rex = rex.unwrap_or(0);
        let xop = first == 0x8f && matches!(at.peek(), Ok(second) if second & 0x1f >= 8);
        let encoding = match first {
            0xd5 => Encoding::Rex2,
            0xc4 | 0xc5 => Encoding::Vex,
            0x62 => Encoding::Evex,
            _ if xop => Encoding::Xop,
            _ => return self.legacy_opcode_from(at, first),
        };
        self.encoding = encoding;
        if encoding == Encoding::Rex2 {
            let bits = at.byte()?;
            self.rex = bits & 0x7f;
            self.map = bits >> 7;
        } else {
            self.vector_prefix_from(at, first)?;
        }
        // None of these prefixes may be combined with REX, and the vector prefixes contain the
        // meaning of 66, F2 and F3.
        let p = self.prefixes;
        let doubled = p.operand_size || p.lock || p.repeat.is_some();
        if rex.is_some() || (doubled && encoding != Encoding::Rex2) {
            return Err(DecodeError::Undefined);
        }
        self.opcode_at = at.at;
        at.byte()
    }

    fn legacy_opcode_from(&mut self, at: &mut Cursor<'_>, first: u8) -> Result<u8, DecodeError> {
        let mut opcode = first;
        if first == 0x0f {
            opcode = at.byte()?;
            self.map = match opcode {
                0x38 => 2,
                0x3a => 3,
                _ => 1,
            };
            if self.map > 1 {
                opcode = at.byte()?;
            }
        }
        self.opcode_at = at.at.saturating_sub(1);
        Ok(opcode)
    }

    /// Reads the rest of a VEX, EVEX or XOP prefix: the map, and the bits for W and for 66.
    fn vector_prefix_from(&mut self, at: &mut Cursor<'_>, first: u8) -> Result<(), DecodeError> {
        let second = at.byte()?;
        self.map = match first {
            0xc5 => 1,
            0x62 => second & 7,
            _ => second & 0x1f,
        };
        if first != 0xc5 {
            let third = at.byte()?;
            self.rex = (third & 0x80) >> 4;
        }
        if first == 0x62 {
            at.byte()?;
        }
        Ok(())
    }

    /// Reads ModRM and everything after it.
    fn operands_from(&mut self, at: &mut Cursor<'_>, opcode: u8) -> Result<(), DecodeError> {
        let layout = layout(self.encoding, self.map, opcode).ok_or(DecodeError::Undefined)?;
        let mut member = 0;
        if layout.modrm {
            self.modrm = Field { at: at.at, len: 1 };
            let modrm = ModRm(at.byte()?);
            member = modrm.reg();
            if self.map == 0 && is_hole(opcode, modrm.0) {
                return Err(DecodeError::Undefined);
            }
            self.memory = layout.memory && modrm.mode() != 3;
            if self.memory {
                self.displacement = displacement_from(at, modrm)?;
            }
        }
        // `popcnt`; without the prefix this is an instruction of Itanium only.
        let popcnt = self.is_legacy() && self.map == 1 && opcode == 0xb8;
        if popcnt && self.prefixes.repeat != Some(Repeat::F3) {
            return Err(DecodeError::Undefined);
        }
        self.immediate = at.field(self.immediate_len(layout.immediate, member, at.text))?;
        Ok(())
    }

    fn immediate_len(&self, immediate: Immediate, member: u8, text: &[u8]) -> u8 {
        let operand = if self.is_word_operand(text) { 2 } else { 4 };
        match immediate {
            Immediate::None => 0,
            Immediate::Byte | Immediate::Relative8 => 1,
            Immediate::Word => 2,
            Immediate::Enter => 3,
            Immediate::Double | Immediate::Relative32 => 4,
            Immediate::Quad => 8,
            Immediate::Operand => operand,
            Immediate::FullOperand if self.is_wide() => 8,
            Immediate::FullOperand => operand,
            Immediate::Offset if self.prefixes.address_size => 4,
            Immediate::Offset => 8,
            Immediate::Group3Byte if member < 2 => 1,
            Immediate::Group3 if member < 2 => operand,
            Immediate::Group3Byte | Immediate::Group3 => 0,
            Immediate::Extract => match self.prefixes {
                p if p.repeat == Some(Repeat::F2) => 2,
                p if p.repeat.is_none() && p.operand_size => 2,
                _ => 0,
            },
        }
    }

    /// Returns the result of [`Insn::is_word`], but also for EVEX, which has two bits in place of
    /// the prefix 66.
    fn is_word_operand(&self, text: &[u8]) -> bool {
        match self.encoding {
            Encoding::Evex => {
                let third = usize::from(self.opcode_at).saturating_sub(2);
                !self.is_wide() && text.get(third).is_some_and(|byte| byte & 3 == 1)
            }
            _ => self.is_word(),
        }
    }
}

/// Skips SIB, and returns the displacement of SIB and ModRM.
fn displacement_from(at: &mut Cursor<'_>, modrm: ModRm) -> Result<Field, DecodeError> {
    let mut no_base = modrm.rm() == 5;
    if modrm.rm() == 4 {
        no_base = at.byte()? & 7 == 5;
    }
    at.field(match modrm.mode() {
        1 => 1,
        2 => 4,
        _ if no_base => 4,
        _ => 0,
    })
}
