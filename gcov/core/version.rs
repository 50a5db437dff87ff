// SPDX-License-Identifier: GPL-2.0

//! Version words: the compiler, its counters, and the unit of its lengths.

use core::fmt;

/// Version word of a compiler: a letter and a digit for the major version (`B2`: 12), a digit for
/// the minor one, and `*` for a release.
///
/// LLVM writes the word of the GCC with the same format: `408*` until LLVM 19, `B11*` since then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version(u32);

impl Version {
    /// `408*`, LLVM's word: a `gcov_info` of GCC 4.8 is not supported.
    pub const LLVM: Self = Self::of(b"408*");

    /// Makes a version from the word in memory or in a file.
    pub const fn new(word: u32) -> Self {
        Self(word)
    }

    const fn of(text: &[u8; 4]) -> Self {
        Self(u32::from_be_bytes(*text))
    }

    /// Returns the word as a number.
    pub const fn word(self) -> u32 {
        self.0
    }

    /// Returns the major version of GCC, if the word is one of GCC 8 or later.
    pub fn gcc(self) -> Option<u32> {
        let [letter, digit, minor, _] = self.0.to_be_bytes();
        if !letter.is_ascii_uppercase() || !digit.is_ascii_digit() || !minor.is_ascii_digit() {
            return None;
        }
        let tens = u32::from(letter.checked_sub(b'A')?);
        let ones = u32::from(digit.checked_sub(b'0')?);
        tens.checked_mul(10)?.checked_add(ones)
    }

    /// Returns the layout of files of this version, or `None` if it is unknown.
    pub fn format(self) -> Option<&'static Format> {
        if self == Self::LLVM {
            return Some(&LLVM);
        }
        match self.gcc()? {
            8 | 9 => Some(&GCC_8),
            10 => Some(&GCC_10),
            11 => Some(&GCC_11),
            12 | 13 => Some(&GCC_12),
            14 => Some(&GCC_14),
            15 | 16 => Some(&GCC_15),
            _ => None,
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in self.0.to_be_bytes() {
            match byte {
                b' '..=b'~' => write!(f, "{}", char::from(byte))?,
                _ => write!(f, "\\x{byte:02x}")?,
            }
        }
        Ok(())
    }
}

/// Functions of GCC's runtime that merge counters. A `gcov_info` names one for each kind of its
/// counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergeFunction {
    /// `__gcov_merge_add`
    Add,
    /// `__gcov_merge_ior`
    Ior,
    /// `__gcov_merge_time_profile`
    TimeProfile,
    /// `__gcov_merge_single`, until GCC 9.
    Single,
    /// `__gcov_merge_icall_topn`, until GCC 9.
    IcallTopN,
    /// `__gcov_merge_topn`, since GCC 10.
    TopN,
}

/// Kind of counters, which determines their meaning and their merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Numbers that add up: executions of arcs, histograms, sums.
    Add,
    /// Sets of bits: common bits of values, outcomes of conditions, paths.
    Or,
    /// Time of the first call of a function; 0 if it was not called.
    Earliest,
    /// Three counters each: a value, its lead over other values, the number of all.
    Single,
    /// Nine counters each: the number of dropped values, then four values with their counts.
    TopCalls,
    /// Nine counters each: the number of values seen, then four values with their counts.
    TopFour,
    /// Three counters each in memory: the number of values seen, the length of a list, and its
    /// address. In a file the list replaces its address.
    TopList,
}

impl Kind {
    /// Returns the merge function that a `gcov_info` names for it.
    pub fn function(self) -> MergeFunction {
        match self {
            Self::Add => MergeFunction::Add,
            Self::Or => MergeFunction::Ior,
            Self::Earliest => MergeFunction::TimeProfile,
            Self::Single => MergeFunction::Single,
            Self::TopCalls => MergeFunction::IcallTopN,
            Self::TopFour | Self::TopList => MergeFunction::TopN,
        }
    }

    /// Returns the number of counters that belong together in memory.
    pub(super) const fn group(self) -> u32 {
        match self {
            Self::Add | Self::Or | Self::Earliest => 1,
            Self::Single | Self::TopList => 3,
            Self::TopCalls | Self::TopFour => 9,
        }
    }
}

/// Unit of the length of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Words of 32 bits: until GCC 11, and always in LLVM.
    Words,
    /// Bytes: since GCC 12.
    Bytes,
}

impl Unit {
    /// Returns the length of `words` words.
    #[inline]
    pub(super) const fn of_words(self, words: u32) -> u32 {
        match self {
            Self::Words => words,
            // Records are far shorter.
            Self::Bytes => words.saturating_mul(4),
        }
    }

    /// Returns the number of words for a length.
    pub(super) const fn words(self, len: u32) -> Option<u32> {
        match (self, len % 4) {
            (Self::Words, _) => Some(len),
            (Self::Bytes, 0) => Some(len / 4),
            (Self::Bytes, _) => None,
        }
    }
}

/// Layout of the files and the memory of a version.
#[derive(Debug, PartialEq, Eq)]
pub struct Format {
    /// Kinds of counters, by index.
    pub kinds: &'static [Kind],
    /// True if a checksum follows the stamp.
    pub checksum: bool,
    /// Unit of lengths.
    pub unit: Unit,
    /// True if a set of counters that are all zero is written as its negative length alone.
    pub omits_zeros: bool,
}

/// Maximum number of kinds of counters of any version.
pub const MAX_KINDS: usize = 10;

const GCC_8: Format = Format {
    kinds: &[
        Kind::Add,
        Kind::Add,
        Kind::Add,
        Kind::Single,
        Kind::Single,
        Kind::Add,
        Kind::Or,
        Kind::Earliest,
        Kind::TopCalls,
    ],
    checksum: false,
    unit: Unit::Words,
    omits_zeros: false,
};

const GCC_10: Format = Format {
    kinds: &[
        Kind::Add,
        Kind::Add,
        Kind::Add,
        Kind::TopFour,
        Kind::TopFour,
        Kind::Add,
        Kind::Or,
        Kind::Earliest,
    ],
    ..GCC_8
};

const GCC_11: Format = Format {
    kinds: &[
        Kind::Add,
        Kind::Add,
        Kind::Add,
        Kind::TopList,
        Kind::TopList,
        Kind::Add,
        Kind::Or,
        Kind::Earliest,
    ],
    omits_zeros: true,
    ..GCC_8
};

const GCC_12: Format = Format {
    checksum: true,
    unit: Unit::Bytes,
    ..GCC_11
};

const GCC_14: Format = Format {
    kinds: &[
        Kind::Add,
        Kind::Add,
        Kind::Add,
        Kind::TopList,
        Kind::TopList,
        Kind::Add,
        Kind::Or,
        Kind::Earliest,
        // Conditions.
        Kind::Or,
    ],
    ..GCC_12
};

const GCC_15: Format = Format {
    kinds: &[
        Kind::Add,
        Kind::Add,
        Kind::Add,
        Kind::TopList,
        Kind::TopList,
        Kind::Add,
        Kind::Or,
        Kind::Earliest,
        // Conditions.
        Kind::Or,
        // Paths.
        Kind::Or,
    ],
    ..GCC_12
};

const LLVM: Format = Format {
    kinds: &[Kind::Add],
    ..GCC_8
};
