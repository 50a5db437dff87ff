// SPDX-License-Identifier: GPL-2.0

//! Reservation of room for a record, and the slow path.

use super::LocalWords;
use super::Ring;
use super::Word;
use super::Words;
use super::MAX_NESTED_RESERVES;

/// Reason why a record cannot be written. It has been counted as lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The record does not fit in a sub-buffer.
    TooLong,
    /// No sub-buffer is free, or the free ones hold a record being written.
    Full {
        /// True if a reader may have to be woken, which can make room. It is not woken again before
        /// it has read all that was available. So records caused by the wake-up itself do not cause
        /// another one.
        wake: bool,
    },
    /// Too many records of this CPU are open.
    Nested,
}

/// The end of a sub-buffer without records. It belongs to the context that reserved the record
/// after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Padding {
    /// Position.
    pub start: u64,
    /// Length, a multiple of 8.
    pub bytes: u64,
}

/// Room for a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Position of the record.
    pub start: u64,
    /// Padding before the record, possibly of 0 bytes, if the record is the first of its
    /// sub-buffer.
    pub entered: Option<Padding>,
    /// True if a reader may have to be woken.
    pub wake: bool,
}

impl Ring {
    /// Reserves `bytes` bytes (a multiple of 8), on the CPU that owns the buffer.
    ///
    /// Calls `stamp` before each attempt. At the last call, all records before this one had been
    /// reserved, and none after it. So the stamps are in the order of the records.
    ///
    /// Includes the fast path. The kernel has the fast path inlined ([`Word::next`]) and calls this
    /// function only if it fails.
    pub fn reserve<W: LocalWords, T>(
        &self,
        words: &W,
        bytes: u64,
        mut stamp: impl FnMut() -> T,
    ) -> Result<(Grant, T), Refused> {
        let mut old = words.reserve();
        loop {
            let stamped = stamp();
            let target = self.target(words, old, bytes)?;
            // Loaded before the position moves: a reader that has seen the new position skips the
            // lost bytes.
            let consumed = words.consumed();
            // `bytes` is at most a sub-buffer, so this stays below 2^62 for longer than machines
            // run.
            let new = Word::new(target.start + bytes, old.in_flight() + 1);
            match words.exchange(old, new) {
                Ok(()) => {
                    let wake = self.entered(words, &target, old, consumed, new.position());
                    let grant = Grant { wake, ..target };
                    return Ok((grant, stamped));
                }
                // Another context has interrupted this one.
                Err(found) => old = found,
            }
        }
    }

    /// Ends a record that was reserved. All of it must have been stored before.
    pub fn commit<W: LocalWords>(&self, words: &W) {
        let mut old = words.reserve();
        while let Err(found) = words.exchange(old, Word(old.0.wrapping_sub(1))) {
            old = found;
        }
    }

    /// Publishes that everything before `position` is complete.
    fn advance_committed<W: LocalWords>(&self, words: &W, position: u64) {
        loop {
            let old = words.committed();
            // A context that interrupted this one may have advanced further.
            if old >= position || words.exchange_committed(old, position) {
                return;
            }
        }
    }

    /// Returns the room for a record of `bytes` bytes.
    fn target<W: LocalWords>(&self, words: &W, old: Word, bytes: u64) -> Result<Grant, Refused> {
        if bytes > self.subbuf_size {
            words.add_lost();
            return Err(Refused::TooLong);
        }
        if old.in_flight() >= MAX_NESTED_RESERVES {
            words.add_lost();
            return Err(Refused::Nested);
        }
        let position = old.position();
        if old.in_flight() == 0 {
            self.advance_committed(words, position);
        }
        let next = self.ceil(position);
        if position != next && bytes <= next - position {
            return Ok(Grant {
                start: position,
                entered: None,
                wake: false,
            });
        }
        if !self.is_free(words, old, next) {
            words.add_lost();
            let wake = self.stall(words, position);
            return Err(Refused::Full { wake });
        }
        // Before the exchange: a context that interrupts after the exchange may be refused, and its
        // value must not be overwritten.
        words.set_stalled(0);
        Ok(Grant {
            start: next,
            entered: Some(Padding {
                start: position,
                bytes: next - position,
            }),
            wake: false,
        })
    }

    /// Records that no sub-buffer is free for a writer at `position`. Returns true if a waiting
    /// reader has to be woken. A reader that was woken before is not woken again until it has read
    /// all that was available then, since it does not sleep before that.
    fn stall<W: LocalWords>(&self, words: &W, position: u64) -> bool {
        let stalled = words.stalled();
        if stalled == position + 1 {
            return false;
        }
        words.set_stalled(position + 1);
        // As in `update_limit`: before loading the reader's words, and the state of its queue.
        words.fence();
        stalled == 0 || words.consumed() >= stalled - 1
    }

    /// Returns true if the sub-buffer at `next` can be entered.
    fn is_free<W: Words>(&self, words: &W, old: Word, next: u64) -> bool {
        // The sub-buffer replaces the one that ends here.
        let needed = (next + self.subbuf_size).saturating_sub(self.size);
        // A record being written must not be replaced in either mode. Without one,
        // `committed` is the position. With one, `committed` is not before the sub-buffer of the
        // outermost record: see `update_limit`.
        let complete = match old.in_flight() {
            0 => next,
            _ => words.committed(),
        };
        if self.overwrite {
            return needed <= complete;
        }
        // User space writes the reader's page: it may claim more than has been written.
        let consumed = words.consumed();
        let read = match consumed >= old.position() {
            // Everything has been read, so the padding that is added now counts as read, too. A
            // reader that is further behind has yet to pass it.
            true => next,
            false => consumed,
        };
        needed <= read.min(complete)
    }

    /// Handles a reserve from the state `old` to `position`, with the reader at `consumed`: ends
    /// the previous sub-buffer, and sets the limit. Returns true if a reader may be waiting for
    /// this.
    fn entered<W: LocalWords>(
        &self,
        words: &W,
        grant: &Grant,
        old: Word,
        consumed: u64,
        position: u64,
    ) -> bool {
        if let Some(padding) = grant.entered {
            if padding.bytes > 0 {
                words.pad(padding);
            }
            if old.in_flight() == 0 {
                // The padding is complete, too.
                self.advance_committed(words, grant.start);
            }
            if self.overwrite {
                let end = (grant.start + self.subbuf_size).saturating_sub(self.size);
                let start = end.saturating_sub(self.subbuf_size);
                let unread = end.saturating_sub(consumed.max(start));
                if unread > 0 {
                    words.add_overwritten(unread);
                }
            }
        }
        self.update_limit(words, old.position(), position)
    }

    /// Sets the limit for the reader's present request. Runs on the CPU that owns the buffer, while
    /// no task there is in the middle of a reserve.
    pub fn refresh_limit<W: LocalWords>(&self, words: &W) {
        let word = words.reserve();
        if word.in_flight() == 0 {
            self.advance_committed(words, word.position());
        }
        self.update_limit(words, word.position(), word.position());
    }

    /// Sets the limit for a writer that has advanced from `old` to `position`, on the CPU that owns
    /// the buffer. Returns true if a waiting reader has to be woken because the requested data has
    /// been written since. If it had been written before, the reader was woken, or saw it when it
    /// polled, and does not sleep before it has read that.
    ///
    /// An interruption may have set a later limit. An earlier limit only causes the slow path to be
    /// taken once more.
    fn update_limit<W: LocalWords>(&self, words: &W, old: u64, position: u64) -> bool {
        let asked = (words.consumed(), words.watermark());
        let stop = self.stop(words.committed(), position, asked.0.min(position), asked.1);
        // One before the position to stop at: a record that ends right there fills the sub-buffer.
        words.set_limit(Word::limit_at(stop.saturating_sub(1)));
        // The reader stores its words, queues itself, and loads the state or has `refresh_limit`
        // called. So either the reader finds its data, or the writer finds the request. The same
        // barrier is between the reserve and the caller's check of the queue.
        words.fence();
        let now = (words.consumed(), words.watermark());
        // True if the sub-buffer was entered during another record. Then the first record that
        // finds nothing in flight has to take the slow path, which advances `committed`. Otherwise
        // the next record that enters a sub-buffer during another one would find no room.
        let behind = words.committed() < self.floor(position.saturating_sub(1));
        if now != asked || behind {
            // Sends the next reserve to the slow path, which calls this again. User space could
            // keep a loop here running without end.
            words.set_limit(Word::limit_at(position));
        }
        // A context that interrupted this one may have advanced past a reader's newest request.
        let reserved = words.reserve().position();
        let wake_at = self.wake_position(now.0.min(reserved), now.1);
        old < wake_at && wake_at <= reserved
    }

    /// Returns the next position at which a writer, now at `position`, needs the slow path. It may
    /// be `position` itself.
    fn stop(&self, committed: u64, position: u64, consumed: u64, watermark: u64) -> u64 {
        let (end, wake_at) = (self.ceil(position), self.wake_position(consumed, watermark));
        let wanted = self.wanted(watermark);
        if wake_at > position {
            return end.min(wake_at);
        }
        // The reader has been woken. If it is further behind, it does not wait for single records.
        if wanted == 0 || position - consumed >= self.subbuf_size {
            return end;
        }
        // The reader is going to read the complete data and to request the same amount again. The
        // limit is set in advance; otherwise `limit_is_late` would stop this CPU at each request.
        let again = (committed.max(consumed) & !7).wrapping_add(wanted);
        // If the writer has passed that position, too, the limit is the next record.
        end.min(again.max(position + 8))
    }
}
