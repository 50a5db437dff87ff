// SPDX-License-Identifier: GPL-2.0

//! Reserving room for a record, and the slow path.

use super::LocalWords;
use super::Ring;
use super::Word;
use super::Words;
use super::MAX_NESTED_RESERVES;

/// Why a record cannot be written. It has been counted as lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It does not fit in a sub-buffer.
    TooLong,
    /// No sub-buffer is free, or the free ones hold a record that is being written.
    Full {
        /// Whether a reader may have to be woken, which can make room. It is not woken again before it has read what
        /// was there, so that records caused by the wake-up itself do not cause another one.
        wake: bool,
    },
    /// Too many records of this CPU are open.
    Nested,
}

/// The end of a sub-buffer that holds no records. It belongs to the context that reserved the record after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Padding {
    /// Its position.
    pub start: u64,
    /// Its length, a multiple of 8.
    pub bytes: u64,
}

/// Room for a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The position of the record.
    pub start: u64,
    /// Set if the record is the first of its sub-buffer: the padding before it, possibly of 0 bytes.
    pub entered: Option<Padding>,
    /// Whether a reader may have to be woken.
    pub wake: bool,
}

impl Ring {
    /// Reserves `bytes` bytes (a multiple of 8), on the CPU that owns the buffer.
    ///
    /// `stamp` is called before each attempt, so its last result is from a time when all records before this one had
    /// been reserved, and none after it.
    ///
    /// This includes the fast path; the kernel has that inlined ([`Word::next`]), and comes here when that does not
    /// suffice.
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
            // Loaded before the position moves: a reader that has seen it move skips what is lost.
            let consumed = words.consumed();
            // `bytes` is at most a sub-buffer, so this stays below 2^62 for longer than machines run.
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
            // A context that interrupted this one may have come further.
            if old >= position || words.exchange_committed(old, position) {
                return;
            }
        }
    }

    /// Where a record of `bytes` bytes would go.
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
        // Not after the exchange: a context that interrupts there may be refused, and that is the later event.
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

    /// Records that no sub-buffer is free for a writer at `position`. Tells whether a waiting reader has to be woken:
    /// not if it was woken before and has not read everything that was there, since it does not sleep before it has.
    fn stall<W: LocalWords>(&self, words: &W, position: u64) -> bool {
        let told = words.stalled();
        if told == position + 1 {
            return false;
        }
        words.set_stalled(position + 1);
        // As in `update_limit`: before loading what the reader has stored, and whether it is queued.
        words.fence();
        told == 0 || words.consumed() >= told - 1
    }

    /// Whether the sub-buffer at `next` can be entered.
    fn is_free<W: Words>(&self, words: &W, old: Word, next: u64) -> bool {
        // The sub-buffer replaces the one that ends here.
        let needed = (next + self.subbuf_size).saturating_sub(self.size);
        // A record that is being written must not be replaced in either mode. While there is none, `committed` is the
        // position. While there is one, `committed` is not before the sub-buffer of the outermost record: see
        // `update_limit`.
        let complete = match old.in_flight() {
            0 => next,
            _ => words.committed(),
        };
        if self.overwrite {
            return needed <= complete;
        }
        // The reader's page is written by user space: it may claim more than has been written.
        let consumed = words.consumed();
        let read = match consumed >= old.position() {
            // Everything has been read, so the padding that is added now counts as read. Padding that is there already
            // does not: the reader is before it, and is going to read it.
            true => next,
            false => consumed,
        };
        needed <= read.min(complete)
    }

    /// After a reserve from the state `old` to `position`, when the reader was at `consumed`: ends the previous
    /// sub-buffer, sets the limit, and tells whether a reader may be waiting for this.
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
                // The padding is complete too.
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

    /// Sets the limit for what the reader asks for now. To be called on the CPU that owns the buffer, when no task
    /// there is in the middle of a reserve.
    pub fn look_after<W: LocalWords>(&self, words: &W) {
        let word = words.reserve();
        if word.in_flight() == 0 {
            self.advance_committed(words, word.position());
        }
        self.update_limit(words, word.position(), word.position());
    }

    /// Sets the limit for a writer that has come from `old` to `position`; on the CPU that owns the buffer.
    /// Tells whether a waiting reader has to be woken: what it waits for has been written since. If it had been written
    /// before, the reader was woken, or saw it when it polled, and does not sleep before it has read that.
    ///
    /// An interruption may have set a later limit meanwhile. An earlier limit only causes the slow path to be taken
    /// once more.
    fn update_limit<W: LocalWords>(&self, words: &W, old: u64, position: u64) -> bool {
        let asked = (words.consumed(), words.watermark());
        let stop = self.stop(words.committed(), position, asked.0.min(position), asked.1);
        // One before the place to stop at: a record that ends right there fills the sub-buffer.
        words.set_limit(Word::limit_at(stop.saturating_sub(1)));
        // The reader stores its words, queues itself, and loads the state or has `look_after` called; so either it
        // finds what it waits for, or the writer finds what it asks for. The same barrier is between the reserve and
        // the caller's check of the queue.
        words.fence();
        let now = (words.consumed(), words.watermark());
        // The sub-buffer was entered within another record. The first record that finds nothing in flight has to take
        // the slow path, which then knows that everything before it is complete: otherwise the next one that enters a
        // sub-buffer within a record would find no room.
        let behind = words.committed() < self.floor(position.saturating_sub(1));
        if now != asked || behind {
            // Do not retry, as user space could make this last for ever: the next reserve comes here again.
            words.set_limit(Word::limit_at(position));
        }
        // A context that interrupted this one may have come further, past what a reader asked for just now.
        let reserved = words.reserve().position();
        let trip = self.trip(now.0.min(reserved), now.1);
        old < trip && trip <= reserved
    }

    /// The position up to which a writer at `position` needs no slow path, which may be `position`.
    fn stop(&self, committed: u64, position: u64, consumed: u64, watermark: u64) -> u64 {
        let (end, trip) = (self.ceil(position), self.trip(consumed, watermark));
        let wanted = self.wanted(watermark);
        if trip > position {
            return end.min(trip);
        }
        // The reader has been woken. One that is further behind does not wait for single records.
        if wanted == 0 || position - consumed >= self.subbuf_size {
            return end;
        }
        // It is going to read what is complete and then wait for as much again. The limit is set before it asks, so
        // that this CPU need not be stopped each time because of `limit_is_late`.
        let again = (committed.max(consumed) & !7).wrapping_add(wanted);
        // From the next record on, if it has passed that too.
        end.min(again.max(position + 8))
    }
}
