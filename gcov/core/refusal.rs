// SPDX-License-Identifier: GPL-2.0

//! Reasons why an object's data is refused.

use super::memory::Unreadable;
use super::version::Version;
use core::fmt;

/// Part of the data that a compiler puts into an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The `gcov_info`.
    Info,
    /// The name of the file.
    Name,
    /// The array of addresses of functions.
    Functions,
    /// A function's `gcov_fn_info`, by its index.
    Function(u32),
    /// Counters of the function with this index.
    Counters(u32),
}

/// Reason why an object is refused. Functions are counted from 0, in the order of the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The layout of the version is unknown.
    Version(Version),
    /// A part lies outside of the memory that belongs to the object.
    Unreadable(Part),
    /// A part is not at a multiple of 8 bytes.
    Misaligned(Part),
    /// The merge function of the counters with this index does not belong to their kind.
    MergeFunction(u8),
    /// More functions than [`MAX_FUNCTIONS`](super::MAX_FUNCTIONS).
    TooManyFunctions(u32),
    /// The function's key is not the address of a plausible `gcov_info`.
    Key(u32),
    /// The function has counters, but no address of them.
    NoCounters(u32),
    /// The function's counters are not a multiple of those that belong together.
    Incomplete(u32),
    /// The file would have more than [`MAX_BYTES`](super::MAX_BYTES).
    TooLarge,
    /// The buffer is too small: the object has changed since it was checked, or the caller was
    /// wrong.
    NoRoom,
}

/// Attaches the part to a failed access.
pub(super) fn reading<T>(part: Part, result: Result<T, Unreadable>) -> Result<T, Refusal> {
    result.map_err(|Unreadable| Refusal::Unreadable(part))
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Info => f.write_str("gcov_info"),
            Self::Name => f.write_str("file name"),
            Self::Functions => f.write_str("table of functions"),
            Self::Function(index) => write!(f, "gcov_fn_info of function {index}"),
            Self::Counters(index) => write!(f, "counters of function {index}"),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version(version) => write!(f, "unknown version {version}"),
            Self::Unreadable(part) => write!(f, "the {part} is outside of the object"),
            Self::Misaligned(part) => write!(f, "the {part} is not aligned"),
            Self::MergeFunction(index) => {
                write!(f, "unexpected merge function for counters {index}")
            }
            Self::TooManyFunctions(count) => write!(f, "{count} functions are too many"),
            Self::Key(index) => write!(f, "the key of function {index} is no gcov_info"),
            Self::NoCounters(index) => write!(f, "function {index} lacks its counters"),
            Self::Incomplete(index) => write!(f, "function {index} has incomplete counters"),
            Self::TooLarge => f.write_str("too many counters"),
            Self::NoRoom => f.write_str("the buffer is too small"),
        }
    }
}
