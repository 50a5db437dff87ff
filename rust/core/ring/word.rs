// SPDX-License-Identifier: GPL-2.0

//! The words that writer and reader share.

/// Records that may be open in reserves that a client leaves open, one within the other.
///
/// What contexts add on top (task, softirq, irq, NMI, machine check) stays within
/// [`Word::MAX_IN_FLIGHT`].
pub const MAX_NESTED_RESERVES: u64 = 24;

/// A position, and how many records are being written.
///
/// Positions are multiples of 8; shifted by 2 they leave 5 bits for the count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word(pub u64);

impl Word {
    /// How far the position is shifted.
    pub const SHIFT: u32 = 2;
    /// The largest count, and the bits it is in.
    pub const MAX_IN_FLIGHT: u64 = 0x1f;

    /// A word of its parts.
    #[inline]
    pub fn new(position: u64, in_flight: u64) -> Self {
        Self((position << Self::SHIFT) | in_flight)
    }

    /// The position of the next record.
    #[inline]
    pub fn position(self) -> u64 {
        (self.0 & !Self::MAX_IN_FLIGHT) >> Self::SHIFT
    }

    /// Records that are being written.
    #[inline]
    pub fn in_flight(self) -> u64 {
        self.0 & Self::MAX_IN_FLIGHT
    }

    /// The largest word whose position is not beyond `position`: what [`Words::limit`] has.
    #[inline]
    pub fn limit_at(position: u64) -> u64 {
        Self::new(position & !7, Self::MAX_IN_FLIGHT).0
    }

    /// The word after a reserve of `bytes`, a multiple of 8 of up to 2^33.
    #[inline]
    pub fn after(self, bytes: u64) -> Self {
        Self(self.0.wrapping_add((bytes << Self::SHIFT) | 1))
    }
}

/// Access to the shared words of one buffer.
///
/// The CPU that owns the buffer is the only one that writes, except for the reader's two words. What
/// it stores becomes visible to other CPUs in the order of the calls (x86 keeps stores in order, so
/// a compiler barrier does; another architecture needs a release). "Local" operations are atomic
/// against what interrupts them on this CPU, and need not be against other CPUs.
pub trait Words {
    /// Loads the state.
    fn reserve(&self) -> Word;
    /// Local compare-and-exchange of the state; the value found if it was another.
    fn exchange(&self, old: Word, new: Word) -> Result<(), Word>;
    /// Loads the largest state that a reserve may lead to without the slow path.
    fn limit(&self) -> u64;
    /// Stores it.
    fn set_limit(&self, limit: u64);
    /// Loads a position before which everything is complete.
    fn committed(&self) -> u64;
    /// Stores it.
    fn set_committed(&self, position: u64);
    /// Stores whether the last record was refused for want of a free sub-buffer.
    fn set_stalled(&self, stalled: bool);
    /// Counts a lost record. Local.
    fn add_lost(&self);
    /// Counts bytes that were overwritten unread. Local.
    fn add_overwritten(&self, bytes: u64);
    /// Loads how far the reader has come, with acquire: the memory before it is free.
    fn consumed(&self) -> u64;
    /// Loads how many bytes the reader waits for.
    fn watermark(&self) -> u64;
    /// A full barrier.
    fn fence(&self);
}
