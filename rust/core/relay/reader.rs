// SPDX-License-Identifier: GPL-2.0

//! The reader's half of the arithmetic.

use super::ByteOffset;
use super::Geometry;
use super::SubbufIndex;

/// The writer's counters, sampled together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// Number of sub-buffers completed so far.
    pub produced: usize,
    /// Number of bytes written to the current one, or [`Geometry::blocked`].
    pub offset: usize,
}

/// Position of a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Number of sub-buffers consumed so far.
    pub consumed: usize,
    /// Number of bytes consumed of the next one.
    pub bytes: usize,
}

/// A run of unread data bytes in one sub-buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Start in the buffer.
    pub start: ByteOffset,
    /// Length, at least 1.
    pub len: usize,
}

impl Position {
    /// Returns the position of a reader that has read `read` sub-buffers and `bytes` bytes of the
    /// next one, in a buffer with `consumed` consumed ones. Those may be fewer, while some are
    /// lent, or more, if some were consumed by other means.
    pub fn new(consumed: usize, read: usize, bytes: usize) -> Self {
        match lead(read, consumed) {
            Some(_) => Self {
                consumed: read,
                bytes,
            },
            // The sub-buffer that was being read has been consumed by other means.
            None => Self { consumed, bytes: 0 },
        }
    }

    /// Finds the first unread data.
    ///
    /// Moves the position over sub-buffers that are used up or were overwritten unread. Returns the
    /// new position with the data that follows it in the same sub-buffer, if there is any.
    /// `padding` returns the padding of a completed sub-buffer.
    ///
    /// The loop ends: after its first round it runs once for each completed sub-buffer, at most.
    pub fn next_chunk(
        mut self,
        geometry: &Geometry,
        view: View,
        padding: impl Fn(SubbufIndex) -> usize,
    ) -> (Self, Option<Chunk>) {
        let blocked = geometry.is_blocked(view.offset);
        // While the writer is in a sub-buffer, its former contents are lost.
        let kept = match blocked {
            true => geometry.n_subbufs(),
            false => geometry.n_subbufs() - 1,
        };

        loop {
            let ready = view.produced.wrapping_sub(self.consumed);
            if ready > kept {
                self = Self {
                    consumed: view.produced.wrapping_sub(kept),
                    bytes: 0,
                };
                continue;
            }

            let index = geometry.index(self.consumed);
            let end = match ready {
                0 if blocked => 0,
                0 => view.offset,
                _ => geometry.subbuf_size().saturating_sub(padding(index)),
            };
            if let Some(len) = end.checked_sub(self.bytes).filter(|len| *len > 0) {
                let start = ByteOffset(geometry.start(index).get() + self.bytes);
                return (self, Some(Chunk { start, len }));
            }
            if ready == 0 {
                return (self, None);
            }
            self = Self {
                consumed: self.consumed.wrapping_add(1),
                bytes: 0,
            };
        }
    }

    /// Returns the position after `len` bytes of the chunk that [`Position::next_chunk`] returned.
    #[inline]
    pub fn advance(self, len: usize) -> Self {
        Self {
            bytes: self.bytes.saturating_add(len),
            ..self
        }
    }
}

/// Returns the new count of consumed sub-buffers after a reader has reported `n` more.
///
/// A report of more than are ready consumes the ready ones. Returns `None` if `n` is more than the
/// buffer has.
pub fn consume(geometry: &Geometry, produced: usize, consumed: usize, n: usize) -> Option<usize> {
    if n > geometry.n_subbufs() {
        return None;
    }
    let ready = produced.wrapping_sub(consumed);
    Some(consumed.wrapping_add(n.min(ready)))
}

/// Returns the lead of the count `a` over `b`; `None` if it is behind. Counts wrap.
fn lead(a: usize, b: usize) -> Option<usize> {
    let by = a.wrapping_sub(b);
    (by <= usize::MAX / 2).then_some(by)
}

/// Returns the count that is ahead of the other one. Counts wrap.
pub fn later(a: usize, b: usize) -> usize {
    lead(a, b).map_or(b, |_| a)
}

/// Returns the new count of consumed sub-buffers after `read` have been read: all of them, or those
/// up to the first that is still `busy`.
pub fn settle(
    geometry: &Geometry,
    consumed: usize,
    read: usize,
    busy: impl Fn(SubbufIndex) -> bool,
) -> usize {
    let Some(by) = lead(read, consumed) else {
        return consumed;
    };
    // Older ones have been overwritten.
    let mut consumed = read.wrapping_sub(by.min(geometry.n_subbufs()));
    while consumed != read && !busy(geometry.index(consumed)) {
        consumed = consumed.wrapping_add(1);
    }
    consumed
}
