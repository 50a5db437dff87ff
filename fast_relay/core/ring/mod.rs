// SPDX-License-Identifier: GPL-2.0

//! Buffer of a fast relay channel: records that one CPU writes in any context, each in place.
//!
//! The state is one word, [`Word`]: the position of the next record and the number of records being
//! written. A writer *reserves* with one compare-and-exchange that advances the position and
//! increments the count, writes, and *commits* by decrementing the count. A context that interrupts
//! it on the same CPU has done both before the writer continues. So the contexts nest, and when the
//! count is 0 everything before the position is complete. No writer disables interrupts, and none
//! waits.
//!
//! Positions only increase. A reserve that would pass [`Words::limit`] takes the slow path, which
//! ends a sub-buffer, refuses a record, or wakes a reader. This is the only comparison on the fast
//! path.
//!
//! Contexts: any, NMI included, with preemption off from reserve to commit. No locks.
//!
//! The state uses a compare-and-exchange rather than an addition. A decision between the load and
//! the exchange (on room and time) still holds when the exchange succeeds. So nothing has to be
//! undone, and the times of the records are in the order of their positions.

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

use ferro_core::relay::Geometry;

/// Error for invalid sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeError;

/// Sizes of a buffer, and its mode when it is full.
///
/// # Invariants
///
/// Both sizes are powers of two; a sub-buffer has at least [`Ring::MIN_SUBBUF`] bytes and the
/// buffer at least 2 sub-buffers.
#[derive(Clone, Copy, Debug)]
pub struct Ring {
    subbuf_size: u64,
    size: u64,
    overwrite: bool,
}

impl Ring {
    /// Smallest size of a sub-buffer.
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

    /// Returns the number of bytes of a sub-buffer.
    pub fn subbuf_size(&self) -> u64 {
        self.subbuf_size
    }

    /// Returns the number of bytes of the buffer.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns the number of sub-buffers of the buffer.
    pub fn n_subbufs(&self) -> u64 {
        // A shift, which cannot fail.
        self.size >> self.subbuf_size.trailing_zeros()
    }

    /// Returns true if new records overwrite old ones.
    pub fn overwrites(&self) -> bool {
        self.overwrite
    }

    /// Returns the offset of a position in the buffer.
    #[inline]
    pub fn offset(&self, position: u64) -> u64 {
        position & (self.size - 1)
    }

    /// Returns the index of the sub-buffer that contains a position, `0..n_subbufs`.
    pub fn index(&self, position: u64) -> usize {
        // The buffer has fewer than 2^32 bytes.
        usize::try_from(self.offset(position) >> self.subbuf_size.trailing_zeros()).unwrap_or(0)
    }

    /// Returns the start of the sub-buffer that contains a position.
    #[inline]
    fn floor(&self, position: u64) -> u64 {
        position & !(self.subbuf_size - 1)
    }

    /// Returns the first start of a sub-buffer that is not before a position.
    #[inline]
    fn ceil(&self, position: u64) -> u64 {
        self.floor(position.wrapping_add(self.subbuf_size - 1))
    }

    /// Returns the oldest position that has not been overwritten, with the writer at `reserved`.
    #[inline]
    pub fn kept(&self, reserved: u64) -> u64 {
        self.ceil(reserved).saturating_sub(self.size)
    }

    /// Returns the number of unread bytes, in whole words, that a reader with `watermark` waits
    /// for.
    fn wanted(&self, watermark: u64) -> u64 {
        watermark.min(self.size / 2).next_multiple_of(8)
    }

    /// Returns the position from which on a reader at `consumed` has to be woken.
    ///
    /// Without a watermark that is the end of its sub-buffer.
    fn wake_position(&self, consumed: u64, watermark: u64) -> u64 {
        match self.wanted(watermark) {
            0 => self.floor(consumed).wrapping_add(self.subbuf_size),
            // Positions are whole words, for any values of user space.
            wanted => (consumed & !7).wrapping_add(wanted),
        }
    }
}
