// SPDX-License-Identifier: GPL-2.0

//! Readable data, and the decision if a reader has to wait.

use super::Ring;
use super::Word;
use super::Words;

/// The writer's words, sampled by a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Position of the next record.
    pub reserved: u64,
    /// Position before which everything is complete.
    pub committed: u64,
}

impl Sample {
    /// Samples the words. All data before `committed` is visible afterwards.
    pub fn new<W: Words>(words: &W) -> Self {
        let word = words.reserve();
        Self {
            reserved: word.position(),
            committed: match word.in_flight() {
                0 => word.position(),
                _ => words.committed(),
            },
        }
    }
}

/// Bytes of complete records, in one sub-buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Position of the first byte.
    pub start: u64,
    /// Number of bytes, at least 1.
    pub bytes: u64,
}

impl Ring {
    /// Returns the true position of a reader that claims `consumed`: not beyond the writer, and for
    /// an overtaken reader, the oldest remaining sub-buffer.
    pub fn position_of(&self, sample: Sample, consumed: u64) -> u64 {
        consumed
            .min(sample.reserved)
            .max(self.kept(sample.reserved))
    }

    /// Finds the first unread bytes after `position`, without padding. Returns their start and the
    /// bytes. If there are none, returns the position that the reader can advance to.
    ///
    /// `padded(index)` is the start of the last padding that [`LocalWords::pad`] has recorded for
    /// that sub-buffer; it may be from an earlier round.
    ///
    /// [`LocalWords::pad`]: super::LocalWords::pad
    pub fn next_run(
        &self,
        sample: Sample,
        position: u64,
        padded: impl Fn(usize) -> u64,
    ) -> (u64, Option<Run>) {
        let mut start = self.position_of(sample, position);
        // At most once around the buffer, after which `start` is in the current sub-buffer.
        loop {
            let floor = self.floor(start);
            let end = floor + self.subbuf_size;
            let complete = end <= sample.committed;
            let data_end = match complete {
                true => Some(padded(self.index(start)))
                    .filter(|padded| (floor + 1..end).contains(padded))
                    .unwrap_or(end),
                false => sample.committed,
            };
            if start < data_end {
                let bytes = data_end - start;
                return (start, Some(Run { start, bytes }));
            }
            if !complete {
                return (start, None);
            }
            start = end;
        }
    }

    /// Returns true if `poll()` has an event for a reader at `consumed`.
    ///
    /// Records that are still being written count: the writer woke the reader when it reserved
    /// them, and does not do so again. The reader may have to poll again.
    pub fn is_due<W: Words>(&self, words: &W) -> bool {
        let reserved = words.reserve().position();
        let consumed = words.consumed().min(reserved);
        let due = self.wake_position(consumed, words.watermark()) <= reserved;
        due || (words.stalled() != 0 && consumed != reserved)
    }

    /// Returns true if the writer would pass the wake-up position of the reader unnoticed, so that
    /// [`Ring::refresh_limit`] has to be called on the writer's CPU.
    ///
    /// Returns false if the reader reads everything and requests the same amount as before: the
    /// writer expects that.
    pub fn limit_is_late<W: Words>(&self, words: &W) -> bool {
        let reserved = words.reserve().position();
        let wake_at = self.wake_position(words.consumed().min(reserved), words.watermark());
        words.limit() >= Word::new(wake_at, 0).0
    }
}
