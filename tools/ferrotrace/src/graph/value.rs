// SPDX-License-Identifier: GPL-2.0

//! Values in registers by their types, and the errors among them.

#![deny(unsafe_code)]

use crate::probes::print::MAX_ERRNO;
use crate::probes::print::errno_name;

/// Errors that only the kernel itself uses.
const INTERNAL: [(i32, &str); 9] = [
    (512, "ERESTARTSYS"),
    (513, "ERESTARTNOINTR"),
    (514, "ERESTARTNOHAND"),
    (515, "ENOIOCTLCMD"),
    (516, "ERESTART_RESTARTBLOCK"),
    (517, "EPROBE_DEFER"),
    (518, "EOPENSTALE"),
    (519, "ENOPARAM"),
    (524, "ENOTSUPP"),
];

/// Returns the name of an error by its number, which is positive.
pub fn error_name(errno: i32) -> String {
    let mut internal = INTERNAL.iter();
    let internal = internal.find_map(|(number, name)| (*number == errno).then_some(*name));
    match internal {
        Some(name) => name.to_owned(),
        None => errno_name(-i64::from(errno)).unwrap_or_else(|| errno.to_string()),
    }
}

/// Returns the number of an error by its name.
pub fn error_number(name: &str) -> Option<i32> {
    let name = name.to_ascii_uppercase();
    (1..=524).find(|errno| error_name(*errno) == name)
}

/// Type of a return value or of a parameter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Type {
    /// No value; the register may have any.
    Nothing,
    /// A signed number of so many bytes.
    Signed(u64),
    /// An unsigned number of so many bytes.
    Unsigned(u64),
    /// A pointer.
    Pointer,
    /// Unknown type.
    #[default]
    Unknown,
}

impl Type {
    /// Returns the value of the type in the register; `None` for a function without a return value.
    ///
    /// Without a type, an error in the lower half is that of an `int` if the upper half is 0, as
    /// compilers leave it.
    pub fn number(self, word: u64) -> Option<i64> {
        let whole = i64::from_ne_bytes(word.to_ne_bytes());
        let low = u32::try_from(word & u64::from(u32::MAX)).unwrap_or(0);
        let int = i64::from(i32::from_ne_bytes(low.to_ne_bytes()));
        Some(match self {
            Type::Nothing => return None,
            Type::Signed(1) => i64::from(i8::from_ne_bytes([word.to_le_bytes()[0]])),
            Type::Signed(2) => int << 48 >> 48,
            Type::Signed(4) => int,
            Type::Unsigned(1) => whole & 0xff,
            Type::Unsigned(2) => whole & 0xffff,
            Type::Unsigned(4) => i64::from(low),
            Type::Unknown if word >> 32 == 0 && errno_of(int).is_some() => int,
            _ => whole,
        })
    }

    /// Returns the number of the error that the value stands for.
    pub fn error(self, word: u64) -> Option<i32> {
        match self {
            Type::Signed(4 | 8) | Type::Unsigned(8) | Type::Pointer | Type::Unknown => {
                errno_of(self.number(word)?)
            }
            _ => None,
        }
    }

    /// Returns the value as text, with the name of the error.
    pub fn text(self, word: u64) -> Option<String> {
        let number = self.number(word)?;
        Some(match (self.error(word), self) {
            (Some(errno), _) => format!("{number} ({})", error_name(errno)),
            (None, Type::Pointer) if word == 0 => "NULL".to_owned(),
            (None, Type::Pointer) => format!("{word:#x}"),
            (None, Type::Signed(_)) => number.to_string(),
            // Neither an address nor any number beyond the range of an `int`.
            _ if (0..=i64::from(u32::MAX)).contains(&number) => number.to_string(),
            _ => format!("{word:#x}"),
        })
    }
}

/// Returns the number of the error that a negative number stands for.
pub(super) fn errno_of(number: i64) -> Option<i32> {
    let is_error = (-MAX_ERRNO..0).contains(&number);
    is_error.then(|| i32::try_from(-number).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    const INT: u64 = 0xffff_fffe;
    const LONG: u64 = u64::MAX - 1;

    #[test]
    fn errors_by_type() {
        for (returns, word, errno) in [
            (Type::Signed(4), INT, Some(2)),
            (Type::Signed(4), 0x1234_0000_0000_0000 | INT, Some(2)),
            (Type::Signed(8), LONG, Some(2)),
            // A length of nearly 4 GiB.
            (Type::Signed(8), INT, None),
            (Type::Pointer, LONG, Some(2)),
            (Type::Pointer, INT, None),
            (Type::Unsigned(8), LONG, Some(2)),
            // vm_fault_t, and a truth value.
            (Type::Unsigned(4), INT, None),
            (Type::Unsigned(1), LONG, None),
            (Type::Nothing, LONG, None),
            (Type::Unknown, INT, Some(2)),
            (Type::Unknown, LONG, Some(2)),
            (Type::Unknown, u64::MAX - 5000, None),
        ] {
            assert_eq!(returns.error(word), errno, "{returns:?} {word:#x}");
        }
    }

    #[test]
    fn texts() {
        let text = |returns: Type, word| returns.text(word).unwrap_or_default();
        assert_eq!(text(Type::Signed(4), INT), "-2 (ENOENT)");
        assert_eq!(text(Type::Signed(4), 0xffff_0000_0000_0003), "3");
        assert_eq!(text(Type::Unsigned(1), 0xffff_ff01), "1");
        assert_eq!(text(Type::Pointer, 0), "NULL");
        assert_eq!(text(Type::Pointer, LONG), "-2 (ENOENT)");
        assert_eq!(
            text(Type::Unknown, 0xffff_8880_0000_1000),
            "0xffff888000001000"
        );
        assert_eq!(text(Type::Nothing, 5), "");
        assert_eq!(text(Type::Signed(8), u64::MAX - 511), "-512 (ERESTARTSYS)");
        assert_eq!(error_name(3000), "3000");
        assert_eq!(error_number("enoent"), Some(2));
        assert_eq!(error_number("ERESTARTSYS"), Some(512));
        assert_eq!(error_number("EWRONG"), None);
    }
}
