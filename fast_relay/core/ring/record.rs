// SPDX-License-Identifier: GPL-2.0

//! Header of a record: `struct relay_fast_record`.

/// Number of bytes of a header.
pub const HEADER_BYTES: u64 = 8;
/// Number of bytes of a time stamp.
pub const TIME_BYTES: u64 = 8;

/// A time stamp follows the header.
pub const TIMED: u16 = 0x1;
/// The writer has discarded the record.
pub const DISCARDED: u16 = 0x2;
/// The record is the rest of a sub-buffer.
pub const PADDING: u16 = 0x4;
/// The record is being written. A reader sees it only after the death of the kernel.
pub const OPEN: u16 = 0x8;

/// The header of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Number of bytes of data.
    pub len: u32,
    /// The client's number for the type of the data.
    pub kind: u16,
    /// [`TIMED`], [`DISCARDED`], [`PADDING`], [`OPEN`].
    pub flags: u16,
}

impl Header {
    /// Offset of the flags in the record.
    pub const FLAGS_AT: usize = 6;

    /// Returns the header as in memory, as one little-endian word.
    #[inline]
    pub const fn to_word(self) -> u64 {
        let [a, b, c, d] = self.len.to_le_bytes();
        let [e, f] = self.kind.to_le_bytes();
        let [g, h] = self.flags.to_le_bytes();
        u64::from_le_bytes([a, b, c, d, e, f, g, h])
    }

    /// Returns the header of a word.
    #[inline]
    pub const fn from_word(word: u64) -> Self {
        let [a, b, c, d, e, f, g, h] = word.to_le_bytes();
        Self {
            len: u32::from_le_bytes([a, b, c, d]),
            kind: u16::from_le_bytes([e, f]),
            flags: u16::from_le_bytes([g, h]),
        }
    }

    /// Returns the distance in bytes to the start of the next record.
    #[inline]
    pub fn bytes(self) -> u64 {
        let time = match self.flags & TIMED {
            0 => 0,
            _ => TIME_BYTES,
        };
        // No overflow: the length has 32 bits.
        HEADER_BYTES + time + ((u64::from(self.len) + 7) & !7)
    }
}
