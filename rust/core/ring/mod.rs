// SPDX-License-Identifier: GPL-2.0

//! The buffer of a fast relay channel: records that one CPU writes from any context, each in place.
//!
//! The state is one word, [`Word`]: the position of the next record and how many records are being
//! written. A writer *reserves* with one compare-and-exchange that advances the position and increments the count,
//! writes, and *commits* by decrementing the count. A context that interrupts it on the same CPU has done both before
//! it continues, so the contexts nest, and when the count is 0 everything before the position is complete. No writer
//! disables interrupts, and none waits.
//!
//! Positions only grow. A reserve that would pass [`Words::limit`] takes the slow path, which ends a sub-buffer,
//! refuses a record, or wakes a reader. This is the only comparison on the fast path.
//!
//! Contexts: any, NMI included, with preemption off from reserve to commit. No locks.
//!
//! It is a compare-and-exchange rather than an addition because what is decided between the load and the exchange
//! (whether there is room, what time it is) still holds when the exchange succeeds: nothing has to be undone, and the
//! times of the records are in the order of their positions.

mod reader;
mod record;
#[cfg(test)]
mod tests;
mod word;
mod writer;

pub use reader::Run;
pub use reader::Sample;
pub use record::Header;
pub use record::DISCARDED;
pub use record::HEADER_BYTES;
pub use record::OPEN;
pub use record::PADDING;
pub use record::TIMED;
pub use record::TIME_BYTES;
pub use word::LocalWords;
pub use word::Word;
pub use word::Words;
pub use word::MAX_NESTED_RESERVES;
pub use writer::Grant;
pub use writer::Padding;
pub use writer::Refused;

use crate::relay::Geometry;

/// The sizes are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeError;

/// The sizes of a buffer and what it does when it is full.
///
/// # Invariants
///
/// Both sizes are powers of two; a sub-buffer has at least [`Ring::MIN_SUBBUF`] bytes and the buffer
/// at least 2 sub-buffers.
#[derive(Clone, Copy, Debug)]
pub struct Ring {
    subbuf_size: u64,
    size: u64,
    overwrite: bool,
}

impl Ring {
    /// The smallest sub-buffer.
    pub const MIN_SUBBUF: usize = 64;

    /// Makes a ring. The sizes have to be powers of two, with at least 2 sub-buffers.
    pub fn new(subbuf_size: usize, n_subbufs: usize, overwrite: bool) -> Result<Self, SizeError> {
        let geometry = Geometry::new(subbuf_size, n_subbufs).map_err(|_| SizeError)?;
        let powers = subbuf_size.is_power_of_two() && n_subbufs.is_power_of_two();
        if !powers || subbuf_size < Self::MIN_SUBBUF || n_subbufs < 2 {
            return Err(SizeError);
        }
        // INVARIANT: Checked above.
        Ok(Self {
            subbuf_size: u64::try_from(subbuf_size).map_err(|_| SizeError)?,
            size: u64::try_from(geometry.bytes()).map_err(|_| SizeError)?,
            overwrite,
        })
    }

    /// Bytes of a sub-buffer.
    pub fn subbuf_size(&self) -> u64 {
        self.subbuf_size
    }

    /// Bytes of the buffer.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Sub-buffers of the buffer.
    pub fn n_subbufs(&self) -> u64 {
        // A shift, which cannot fail.
        self.size >> self.subbuf_size.trailing_zeros()
    }

    /// Whether new records overwrite old ones.
    pub fn overwrites(&self) -> bool {
        self.overwrite
    }

    /// Where a position is in the buffer.
    #[inline]
    pub fn offset(&self, position: u64) -> u64 {
        position & (self.size - 1)
    }

    /// The index of the sub-buffer that a position is in, `0..n_subbufs`.
    pub fn index(&self, position: u64) -> usize {
        // The buffer has fewer than 2^32 bytes.
        usize::try_from(self.offset(position) >> self.subbuf_size.trailing_zeros()).unwrap_or(0)
    }

    /// The start of the sub-buffer that a position is in.
    #[inline]
    fn floor(&self, position: u64) -> u64 {
        position & !(self.subbuf_size - 1)
    }

    /// The first start of a sub-buffer that is not before a position.
    #[inline]
    fn ceil(&self, position: u64) -> u64 {
        self.floor(position.wrapping_add(self.subbuf_size - 1))
    }

    /// The oldest position that has not been overwritten, with the writer at `reserved`.
    #[inline]
    pub fn kept(&self, reserved: u64) -> u64 {
        self.ceil(reserved).saturating_sub(self.size)
    }

    /// How many unread bytes, in whole words, a reader with `watermark` waits for.
    fn wanted(&self, watermark: u64) -> u64 {
        watermark.min(self.size / 2).next_multiple_of(8)
    }

    /// The position from which on a reader that has come to `consumed` has to be woken.
    ///
    /// Without a watermark that is the end of the sub-buffer it is in.
    fn trip(&self, consumed: u64, watermark: u64) -> u64 {
        match self.wanted(watermark) {
            0 => self.floor(consumed).wrapping_add(self.subbuf_size),
            // Positions are whole words, whatever user space says.
            wanted => (consumed & !7).wrapping_add(wanted),
        }
    }
}
