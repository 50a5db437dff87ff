// SPDX-License-Identifier: GPL-2.0

//! The version word of `.gcno` and `.gcda` files: which compiler wrote them, and how they are laid out.

#![deny(unsafe_code)]

use std::fmt;

/// The word with which a compiler says what it writes: a letter and a digit for the major version (`B2`: 12), a digit
/// for the minor one, and a character that is `*` for a release.
///
/// LLVM writes the word of a GCC whose layout it follows: `408*` until LLVM 19, `B11*` from then on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Version(u32);

/// Whose layout a file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Compiler {
    /// GCC, with its major version.
    Gcc(u32),
    /// LLVM; all of its versions read each other's files.
    Llvm,
}

/// How a file is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Unit of lengths of records and strings, in bytes: 1 or 4.
    pub unit: u32,
    /// There is a checksum after the stamp.
    pub checksum: bool,
    /// A `.gcno` file has the directory that the compiler ran in.
    pub directory: bool,
    /// A `.gcno` file says whether lines may have blocks that did not run.
    pub unexecuted: bool,
}

impl Version {
    /// The word, as a number of the machine.
    pub const fn new(word: u32) -> Self {
        Self(word)
    }

    /// The word as a number.
    pub const fn word(self) -> u32 {
        self.0
    }

    /// The major version of the GCC that the word is of.
    fn gcc(self) -> Option<u32> {
        let [letter, digit, minor, _] = self.0.to_be_bytes();
        if !letter.is_ascii_uppercase() || !digit.is_ascii_digit() || !minor.is_ascii_digit() {
            return None;
        }
        Some(u32::from(letter - b'A') * 10 + u32::from(digit - b'0'))
    }

    /// The compiler that uses this word, and the layout of its files. `None` for those that we do not know. GCC 11.1 has
    /// a word that LLVM uses, too.
    pub fn compiler(self) -> Option<(Compiler, Layout)> {
        let (compiler, major) = match self.0.to_be_bytes() {
            [b'4', b'0', b'8', b'*'] => (Compiler::Llvm, 0),
            _ => {
                let major = self.gcc().filter(|major| *major >= 8)?;
                (Compiler::Gcc(major), major)
            }
        };
        let layout = Layout {
            unit: if major >= 12 { 1 } else { 4 },
            checksum: major >= 12,
            directory: major >= 9,
            unexecuted: major >= 8,
        };
        Some((compiler, layout))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.to_be_bytes().escape_ascii().to_string())
    }
}

impl fmt::Display for Compiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gcc(major) => write!(f, "GCC {major}"),
            Self::Llvm => f.write_str("LLVM"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &[u8; 4]) -> Version {
        Version::new(u32::from_be_bytes(*text))
    }

    #[test]
    fn words() {
        let of = |text| version(text).compiler();
        let (compiler, layout) = of(b"B22*").unwrap();
        assert_eq!(compiler, Compiler::Gcc(12));
        assert!(layout.unit == 1 && layout.checksum && layout.directory && layout.unexecuted);
        let (compiler, layout) = of(b"B13*").unwrap();
        assert_eq!(compiler, Compiler::Gcc(11));
        assert!(layout.unit == 4 && !layout.checksum && layout.directory);
        assert!(matches!(of(b"A93*"), Some((Compiler::Gcc(9), _))));
        assert!(matches!(of(b"A83*"), Some((Compiler::Gcc(8), layout)) if !layout.directory));
        let (compiler, layout) = of(b"408*").unwrap();
        assert_eq!(compiler, Compiler::Llvm);
        assert!(layout.unit == 4 && !layout.directory && !layout.unexecuted);
        for unknown in [b"A74*", b"407*", b"\0\0\0\0", b"BB1*", b"b22*"] {
            assert_eq!(of(unknown), None);
        }
    }

    #[test]
    fn text() {
        assert_eq!(version(b"B22*").to_string(), "B22*");
        assert_eq!(version(b"\0\xff2*").to_string(), "\\x00\\xff2*");
    }
}
