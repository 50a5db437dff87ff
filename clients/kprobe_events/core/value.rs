// SPDX-License-Identifier: GPL-2.0

//! Values of hits that tables add up.
//!
//! A table adds up magnitudes, which have no sign. The sign is a part of the key: the class of a
//! value, the last word before a stack.
//!
//! Contexts: any, NMI included.

use ferro_core::histogram::class;

use crate::probe_args::Type;

/// Value of a hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value {
    /// Magnitude.
    pub magnitude: u64,
    /// True for a negative number.
    pub is_negative: bool,
}

impl Value {
    /// Takes a value of a type from a word that begins with its bytes, as a record has them.
    pub fn of_record(ty: Type, word: u64) -> Self {
        let number = ty.of_record(word);
        let signed = number as i64;
        match ty.is_signed() {
            true => Self {
                magnitude: signed.unsigned_abs(),
                is_negative: signed < 0,
            },
            false => Self {
                magnitude: number,
                is_negative: false,
            },
        }
    }

    /// Returns the class for a key. In a table without classes, each sign has one class.
    ///
    /// The class of a negative number is that of its magnitude, which is not 0, with a sign.
    pub fn class(self, has_classes: bool) -> i64 {
        let of_magnitude = match has_classes {
            true => class(self.magnitude) as i64,
            false => i64::from(self.is_negative),
        };
        match self.is_negative {
            true => of_magnitude.wrapping_neg(),
            false => of_magnitude,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(ty: &str, word: u64) -> (i128, i64, i64) {
        let value = Value::of_record(Type::parse(ty).unwrap(), word);
        let number = i128::from(value.magnitude);
        let number = if value.is_negative { -number } else { number };
        (number, value.class(true), value.class(false))
    }

    #[test]
    fn signs_and_classes() {
        assert_eq!(value("s32", 0xffff_fffe), (-2, -2, -1));
        assert_eq!(value("u32", 0xffff_fffe), (0xffff_fffe, 239, 0));
        assert_eq!(value("s8", 0x7f), (127, 39, 0));
        let (number, class, _) = value("s64", 1 << 63);
        assert_eq!((number, class), (i64::MIN.into(), -488));
        assert_eq!(value("x64", u64::MAX).0, u64::MAX.into());
        // The bits of a record have been taken out.
        assert_eq!(value("b3@4/8", 5), (5, 5, 0));
        assert_eq!(value("s16", 0), (0, 0, 0));
    }
}
