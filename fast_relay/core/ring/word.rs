// SPDX-License-Identifier: GPL-2.0

//! Words that writer and reader share.

use super::Padding;

/// Maximum number of open records of a CPU, over all its contexts.
pub const MAX_NESTED_RESERVES: u64 = 24;

/// A position, and the number of records being written.
///
/// Positions are multiples of 8; shifted by 2 they leave 5 bits for the count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word(pub u64);

impl Word {
    /// Shift of the position.
    pub const SHIFT: u32 = 2;
    /// Maximum count, and the mask of its bits.
    pub const MAX_IN_FLIGHT: u64 = 0x1f;
    /// Bit of the count for 16 records and more: then each reserve takes the slow path.
    pub const CROWDED: u64 = 0x10;

    /// Makes a word from its parts.
    #[inline]
    pub fn new(position: u64, in_flight: u64) -> Self {
        Self((position << Self::SHIFT) | in_flight)
    }

    /// Returns the position of the next record.
    #[inline]
    pub fn position(self) -> u64 {
        (self.0 & !Self::MAX_IN_FLIGHT) >> Self::SHIFT
    }

    /// Returns the number of records being written.
    #[inline]
    pub fn in_flight(self) -> u64 {
        self.0 & Self::MAX_IN_FLIGHT
    }

    /// Returns the largest word with a position up to `position`, for [`Words::limit`].
    #[inline]
    pub fn limit_at(position: u64) -> u64 {
        Self::new(position & !7, Self::MAX_IN_FLIGHT).0
    }

    /// Returns the word after a reserve of `bytes`, a multiple of 8 of up to 2^33, on the fast
    /// path; `None` if the slow path has to decide. The count never carries into the position.
    #[inline(always)]
    pub fn next(self, bytes: u64, limit: impl FnOnce() -> u64) -> Option<Self> {
        let next = self.0.wrapping_add((bytes << Self::SHIFT) | 1);
        (next <= limit() && self.0 & Self::CROWDED == 0).then_some(Self(next))
    }
}

const _: () =
    assert!(Word::CROWDED <= MAX_NESTED_RESERVES && MAX_NESTED_RESERVES < Word::MAX_IN_FLIGHT);

/// Access to the shared words of one buffer, from any CPU.
pub trait Words {
    /// Loads the state.
    fn reserve(&self) -> Word;
    /// Loads the largest state that a reserve may lead to without the slow path.
    fn limit(&self) -> u64;
    /// Loads a position before which everything is complete.
    fn committed(&self) -> u64;
    /// Loads the position at which the last record was refused for lack of a free sub-buffer, plus
    /// 1; 0 if a sub-buffer has been entered since.
    fn stalled(&self) -> u64;
    /// Loads the reader's position, with acquire: the memory before it is free.
    fn consumed(&self) -> u64;
    /// Loads the number of bytes that the reader waits for.
    fn watermark(&self) -> u64;
}

/// Access to the words of the buffer of this CPU, the only one that writes them.
///
/// Stores become visible to other CPUs in the order of the calls (x86 keeps stores in order, so a
/// compiler barrier suffices; other architectures need a release). "Local" operations are atomic
/// with respect to interruptions on this CPU, and need not be with respect to other CPUs.
pub trait LocalWords: Words {
    /// Exchanges the state. Local. The error is the value found, if it was not `old`.
    fn exchange(&self, old: Word, new: Word) -> Result<(), Word>;
    /// Stores the limit.
    fn set_limit(&self, limit: u64);
    /// Exchanges [`Words::committed`]. Local. Returns true if it was `old`.
    fn exchange_committed(&self, old: u64, new: u64) -> bool;
    /// Stores [`Words::stalled`].
    fn set_stalled(&self, stalled: u64);
    /// Counts a lost record. Local.
    fn add_lost(&self);
    /// Counts bytes that were overwritten unread. Local.
    fn add_overwritten(&self, bytes: u64);
    /// Writes reserved padding, and records its start for
    /// [`Ring::next_run`](super::Ring::next_run).
    fn pad(&self, padding: Padding);
    /// Issues a full barrier.
    fn fence(&self);
}
