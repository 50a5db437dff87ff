// SPDX-License-Identifier: GPL-2.0

//! Format of a `gcda` file: words of 32 bits, in records with a tag and a length.
//!
//! ```text
//! gcda, version, stamp, checksum since GCC 12
//! summary: tag, length of 2 words, runs, sum of the largest counters
//!     (the kernel has no runs, and writes none)
//! for each function of the object:
//!     tag, length of 3 words, ident, checksum of lines, checksum of control flow
//!         (or tag, 0: the function is missing)
//!     for each kind of counters of the object:
//!         tag, length, counters of 64 bits, the low half first
//!         (or, since GCC 11, tag, negative length: they are all zero)
//! 0
//! ```

use super::version::Format;
use super::version::Kind;

/// `gcda`, as a number.
pub(super) const MAGIC: u32 = 0x6763_6461;
/// A function.
pub(super) const TAG_FUNCTION: u32 = 0x0100_0000;
/// Counters of the first kind; the tags of the others are at a distance of [`TAG_STEP`].
pub(super) const TAG_COUNTERS: u32 = 0x01a1_0000;
const TAG_STEP: u32 = 1 << 17;
/// Number of runs of an object, since GCC 9.
pub(super) const TAG_OBJECT_SUMMARY: u32 = 0xa100_0000;
/// Number of runs before GCC 9, in another layout.
pub(super) const TAG_PROGRAM_SUMMARY: u32 = 0xa300_0000;

/// Words of a function's record.
pub(super) const FUNCTION_WORDS: u32 = 3;
/// Words of a summary's record.
pub(super) const SUMMARY_WORDS: u32 = 2;
/// Bytes of a counter.
pub(super) const COUNTER: usize = 8;

/// Converts the bytes of a counter to its value.
pub(super) fn value(bytes: &[u8]) -> u64 {
    let bytes = bytes.try_into().unwrap_or([0; COUNTER]);
    u64::from_le_bytes(bytes)
}

/// Returns the tag of counters of the kind with an index.
#[inline]
pub(super) fn counters_tag(index: u8) -> u32 {
    // An index is below MAX_KINDS.
    TAG_COUNTERS.wrapping_add(u32::from(index).wrapping_mul(TAG_STEP))
}

/// Returns the index of the kind of counters with a tag.
pub(super) fn counters_index(tag: u32) -> Option<u8> {
    let distance = tag.checked_sub(TAG_COUNTERS)?;
    match distance % TAG_STEP {
        0 => u8::try_from(distance / TAG_STEP).ok(),
        _ => None,
    }
}

/// Returns the number of counters in a file for `count` in memory, if `count` is valid. For a list,
/// this is only the part in front of its elements.
#[inline]
pub(super) fn disk_count(kind: Kind, count: u32) -> Option<u32> {
    match (count % kind.group(), kind) {
        (0, Kind::TopList) => (count / 3).checked_mul(2),
        (0, _) => Some(count),
        _ => None,
    }
}

/// Returns the length of a record with `count` counters.
#[inline]
pub(super) fn counters_len(format: &Format, count: u32) -> Option<u32> {
    let len = format.unit.of_words(count.checked_mul(2)?);
    // A negative length means that there are none.
    i32::try_from(len).is_ok().then_some(len)
}

/// Sums up the length of a file.
pub(super) struct Len {
    bytes: usize,
}

/// Starts with the length of a file without functions.
pub(super) fn gcda_len(format: &Format) -> Len {
    // Magic, version, stamp, end.
    let words: usize = match format.checksum {
        true => 5,
        false => 4,
    };
    Len {
        bytes: words.saturating_mul(4),
    }
}

impl Len {
    fn words(&mut self, words: usize) {
        self.bytes = self.bytes.saturating_add(words.saturating_mul(4));
    }

    /// Adds the tag and the length of a function.
    pub(super) fn function(&mut self) {
        self.words(2);
    }

    /// Adds the data of a function that is present.
    pub(super) fn present(&mut self) {
        self.words(3);
    }

    /// Adds counters.
    pub(super) fn set(&mut self, count: u32) {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        self.words(count.saturating_mul(2).saturating_add(2));
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}
