// SPDX-License-Identifier: GPL-2.0

//! Types of arguments.

use super::number;

/// Number of bytes of text, with its NUL, unless the type has another number.
const TEXT_DEFAULT: u16 = 128;

/// Maximum number of bytes of text.
const TEXT_MAX: u16 = 256;

/// Format of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Show {
    /// An unsigned number.
    Unsigned,
    /// A signed number.
    Signed,
    /// A number in hexadecimal.
    Hex,
    /// The name of the function at this address.
    Symbol,
}

/// The type of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// A number.
    Number {
        /// Number of bytes: 1, 2, 4 or 8.
        size: u8,
        /// Format.
        show: Show,
    },
    /// Some bits of a number.
    Bits {
        /// Number of bits.
        width: u8,
        /// Lowest bit.
        shift: u8,
        /// Number of bytes of the number: 1, 2, 4 or 8.
        size: u8,
    },
    /// Text that ends with a NUL.
    Text {
        /// Maximum number of bytes that are kept, with the NUL.
        len: u16,
    },
    /// Stack trace, innermost call first, which follows all other arguments.
    Stack {
        /// True for the user stack.
        user: bool,
    },
}

impl Type {
    /// Default type of an argument.
    pub const DEFAULT: Self = Self::Number {
        size: 8,
        show: Show::Hex,
    };

    /// Parses a type.
    pub fn parse(text: &str) -> Option<Self> {
        if text == "symbol" {
            let show = Show::Symbol;
            return Some(Self::Number { size: 8, show });
        }
        if let Some(len) = text.strip_prefix("string").or(text.strip_prefix("ustring")) {
            let len = match len {
                "" => TEXT_DEFAULT,
                len => number(len)?.try_into().ok()?,
            };
            return (2..=TEXT_MAX).contains(&len).then_some(Self::Text { len });
        }
        let kind = text.get(..1)?;
        let rest = text.get(1..)?;
        if kind == "b" {
            let (width, rest) = rest.split_once('@')?;
            let (shift, bits) = rest.split_once('/')?;
            let (width, shift, bits) = (number(width)?, number(shift)?, number(bits)?);
            let size = size(bits)?;
            let good = width != 0 && width.checked_add(shift)? <= bits;
            return good.then_some(Self::Bits {
                width: width.try_into().ok()?,
                shift: shift.try_into().ok()?,
                size,
            });
        }
        let show = match kind {
            "u" => Show::Unsigned,
            "s" => Show::Signed,
            "x" => Show::Hex,
            _ => return None,
        };
        let size = size(number(rest)?)?;
        Some(Self::Number { size, show })
    }

    /// Returns true for text.
    pub fn is_text(self) -> bool {
        matches!(self, Self::Text { .. })
    }

    /// Returns true for a stack.
    pub fn is_stack(self) -> bool {
        matches!(self, Self::Stack { .. })
    }

    /// Returns the number of bytes of a value in a record.
    pub fn size(self) -> usize {
        match self {
            Self::Number { size, .. } | Self::Bits { size, .. } => size.into(),
            Self::Text { len } => len.into(),
            Self::Stack { .. } => 0,
        }
    }

    /// Returns the alignment in a record.
    pub(super) fn alignment(self) -> usize {
        match self {
            Self::Number { size, .. } | Self::Bits { size, .. } => size.into(),
            Self::Text { .. } | Self::Stack { .. } => 1,
        }
    }

    /// Returns a number of this type, from the lowest part of the word. Extends the sign.
    pub fn of_word(self, word: u64) -> u64 {
        match self {
            Self::Number { size, show } => {
                let unused = 64_u32.saturating_sub(u32::from(size).saturating_mul(8));
                let high = word.checked_shl(unused).unwrap_or(0);
                match show {
                    // The shift of a signed number repeats the sign.
                    Show::Signed => (high as i64).checked_shr(unused).unwrap_or(0) as u64,
                    _ => high.checked_shr(unused).unwrap_or(0),
                }
            }
            Self::Bits { width, shift, .. } => {
                let low = word.checked_shr(shift.into()).unwrap_or(0);
                let unused = 64_u32.saturating_sub(width.into());
                let high = low.checked_shl(unused).unwrap_or(0);
                high.checked_shr(unused).unwrap_or(0)
            }
            Self::Text { .. } | Self::Stack { .. } => word,
        }
    }

    /// Returns a number of this type from a word that begins with its bytes in a record. Extends
    /// the sign.
    pub fn of_record(self, word: u64) -> u64 {
        match self {
            // These bits were taken out for the record.
            Self::Bits { .. } => word,
            _ => self.of_word(word),
        }
    }

    /// Returns true if numbers of this type are compared as signed.
    pub fn is_signed(self) -> bool {
        let show = Show::Signed;
        matches!(self, Self::Number { show: s, .. } if s == show)
    }
}

/// Returns the number of bytes for a number of bits.
fn size(bits: u64) -> Option<u8> {
    match bits {
        8 => Some(1),
        16 => Some(2),
        32 => Some(4),
        64 => Some(8),
        _ => None,
    }
}

/// Returns the next multiple of `to`.
pub(super) fn align(at: usize, to: usize) -> Option<usize> {
    at.checked_next_multiple_of(to)
}
