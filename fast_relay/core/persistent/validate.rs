// SPDX-License-Identifier: GPL-2.0

//! Validation of a recovered per-CPU buffer.
//!
//! Sealed bytes are valid if they match their checksum. Other bytes have to be consecutive records
//! from the start of a sub-buffer to its end, or to the write position.
//!
//! Records that were being written when the kernel died are not shown. The control page has their
//! number. Those whose header had been written have the mark [`OPEN`]. If not all of them have the
//! mark, nothing after the last complete position is certain.

use super::checksum::checksum;
use super::checksum::Entry;
use super::checksum::Head;
use super::checksum::Reason;
use super::ctl;
use super::Layout;
use super::Memory;
use super::CTL_MAGIC;
use crate::ring::Header;
use crate::ring::Ring;
use crate::ring::Word;
use crate::ring::DISCARDED;
use crate::ring::HEADER_BYTES;
use crate::ring::MAX_NESTED_RESERVES;
use crate::ring::OPEN;
use crate::ring::PADDING;
use crate::ring::TIMED;

/// Maximum step back of the clock between two records, as while the clock is being adjusted.
const CLOCK_SLACK_NS: u64 = 1_000_000;

/// Reason why bytes are not shown as records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// The bytes do not match the checksum.
    Checksum,
    /// The bytes are not records.
    Structure,
    /// The record's time is before the opening of the channel, or before the previous record's
    /// time.
    Time,
    /// The record was being written.
    Open,
    /// One or more records among the bytes were being written, at unknown positions.
    Unknown,
}

/// A part of a buffer, in the order of positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Records, from the start of one to the end of one.
    Records {
        /// First position.
        from: u64,
        /// Position after them.
        to: u64,
        /// Number of records, without padding and discarded ones.
        records: u64,
        /// True if a checksum confirms them.
        sealed: bool,
    },
    /// Other bytes.
    Left {
        /// First position.
        from: u64,
        /// Position after them.
        to: u64,
        /// Reason.
        why: Why,
    },
}

/// Reason why nothing of a buffer can be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoBuffer {
    /// The CPU had no buffer.
    Absent,
    /// The buffer has no seal, and its control page is damaged.
    Damaged,
}

/// Description of a recovered buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Write position, and number of records being written.
    pub reserve: Word,
    /// Oldest position in the buffer.
    pub kept: u64,
    /// Number of records that could not be written.
    pub lost: u64,
    /// Number of bytes that were overwritten unread.
    pub overwritten: u64,
    /// Reason for the seal, if there is one.
    pub sealed: Option<Reason>,
    /// True if the control page contradicts the seal; then the seal's values are used. A CPU may
    /// have written after the seal: those records are not shown, as they cannot be distinguished
    /// from damage.
    pub bad_ctl: bool,
}

/// The buffer that is examined.
struct Buffer<'a, M: Memory + ?Sized> {
    memory: &'a M,
    layout: &'a Layout,
    cpu: u64,
    opened_ns: u64,
}

/// Validates the buffer of a CPU of a channel that was opened at `opened_ns`, and passes its pieces
/// to `each`. The pieces follow each other without gaps, from [`Found::kept`] to the write
/// position.
///
/// The number of steps is at most the number of words in the buffer, for any memory.
pub fn cpu<M: Memory + ?Sized>(
    memory: &M,
    layout: &Layout,
    cpu: u64,
    opened_ns: u64,
    mut each: impl FnMut(Piece),
) -> Result<Found, NoBuffer> {
    let buffer = Buffer {
        memory,
        layout,
        cpu,
        opened_ns,
    };
    let (found, committed) = buffer.find()?;
    let end = buffer.certain(&found, committed);
    let position = found.reserve.position();
    let mut previous = None;
    let mut start = found.kept;
    while start < end {
        let stop = end.min(buffer.next_subbuf(start));
        buffer.subbuf(
            start,
            stop,
            found.sealed.is_some(),
            &mut previous,
            &mut each,
        );
        start = stop;
    }
    if start < position {
        each(Piece::Left {
            from: start,
            to: position,
            why: Why::Unknown,
        });
    }
    Ok(found)
}

impl<M: Memory + ?Sized> Buffer<'_, M> {
    fn ring(&self) -> &Ring {
        self.layout.ring()
    }

    fn word(&self, at: u64) -> u64 {
        self.memory.load(self.layout.ctl_at(self.cpu) + at)
    }

    fn data(&self, position: u64) -> u64 {
        self.memory.load(self.layout.data_at(self.cpu, position))
    }

    fn header(&self, position: u64) -> Header {
        Header::from_word(self.data(position))
    }

    fn next_subbuf(&self, position: u64) -> u64 {
        let size = self.ring().subbuf_size();
        (position & !(size - 1)).saturating_add(size)
    }

    /// Returns the values of the control page, or of the seal if they contradict; and the position
    /// before which everything was complete.
    fn find(&self) -> Result<(Found, u64), NoBuffer> {
        let head = Head::load(self.memory, self.layout, self.cpu);
        let magic = self.word(ctl::MAGIC_VERSION);
        let reserve = Word(self.word(ctl::RESERVE));
        let Some(head) = head else {
            return match (magic, reserve.0) {
                (0, 0) => Err(NoBuffer::Absent),
                (CTL_MAGIC, _) if self.is_possible(reserve) => Ok((
                    Found {
                        reserve,
                        kept: self.ring().kept(reserve.position()),
                        lost: self.word(ctl::LOST),
                        overwritten: self.word(ctl::OVERWRITTEN),
                        sealed: None,
                        bad_ctl: false,
                    },
                    self.word(ctl::COMMITTED),
                )),
                _ => Err(NoBuffer::Damaged),
            };
        };
        let same = reserve == head.reserve;
        let bad_ctl = magic != CTL_MAGIC
            || !self.is_possible(reserve)
            || reserve.position() < head.reserve.position()
            || (same && self.word(ctl::COMMITTED) < head.committed)
            || (!same && (head.reason.is_final() || self.contradicts(reserve, head.reserve)));
        // A CPU that was not stopped may have written after the seal; only its control page covers
        // such records.
        let (reserve, committed, lost, overwritten) = match same || bad_ctl {
            true => (head.reserve, head.committed, head.lost, head.overwritten),
            false => (
                reserve,
                self.word(ctl::COMMITTED),
                self.word(ctl::LOST),
                self.word(ctl::OVERWRITTEN),
            ),
        };
        let found = Found {
            reserve,
            kept: self.ring().kept(reserve.position()),
            lost,
            overwritten,
            sealed: Some(head.reason),
            bad_ctl,
        };
        Ok((found, committed))
    }

    fn is_possible(&self, reserve: Word) -> bool {
        reserve.position() % 8 == 0
            && reserve.in_flight() <= MAX_NESTED_RESERVES
            && reserve.position() < 1 << 61
    }

    /// Returns true if `reserve` contradicts the seal: sealed bytes are intact that a writer at
    /// `reserve` would have overwritten.
    fn contradicts(&self, reserve: Word, sealed: Word) -> bool {
        let mut start = self.ring().kept(sealed.position());
        let kept = self.ring().kept(reserve.position());
        while start < sealed.position().min(kept) {
            if self.entry(start).is_some_and(|entry| self.is_sound(&entry)) {
                return true;
            }
            start = self.next_subbuf(start);
        }
        false
    }

    /// Returns the entry for a sub-buffer that starts at this position.
    fn entry(&self, start: u64) -> Option<Entry> {
        Entry::load(self.memory, self.layout, self.cpu, start).filter(|entry| {
            entry.start == start && entry.end <= self.next_subbuf(start) && entry.end % 8 == 0
        })
    }

    fn is_sound(&self, entry: &Entry) -> bool {
        entry.crc == checksum(self.memory, self.layout, self.cpu, entry.start, entry.end)
    }

    /// Returns the end of the bytes whose unfinished records are known.
    fn certain(&self, found: &Found, committed: u64) -> u64 {
        let position = found.reserve.position();
        let in_flight = found.reserve.in_flight();
        if in_flight == 0 {
            return position;
        }
        let sane = committed % 8 == 0 && (found.kept..=position).contains(&committed);
        let committed = match sane {
            true => committed,
            false => found.kept,
        };
        match self.count_open(committed, position) {
            Some(open) if open == in_flight => position,
            _ => committed,
        }
    }

    /// Returns the number of records with the mark; `None` if bytes are not a record.
    fn count_open(&self, from: u64, to: u64) -> Option<u64> {
        let (mut position, mut open) = (from, 0);
        while position < to {
            let header = self.record(position, to.min(self.next_subbuf(position)))?;
            open += u64::from(header.flags & OPEN != 0);
            position += header.bytes();
        }
        Some(open)
    }

    /// Returns the header at a position, if it is valid for a record that ends at `end` or before.
    fn record(&self, position: u64, end: u64) -> Option<Header> {
        let header = self.header(position);
        let fits = header.bytes() <= end - position;
        let known = header.flags & !(TIMED | DISCARDED | PADDING | OPEN) == 0;
        let padding = header.flags & PADDING == 0
            || (header.flags == PADDING
                && header.kind == 0
                && position + header.bytes() == self.next_subbuf(position));
        (fits && known && padding).then_some(header)
    }

    /// Checks the sub-buffer, or its certain part, from `start` to `stop`.
    fn subbuf(
        &self,
        start: u64,
        stop: u64,
        is_sealed: bool,
        previous: &mut Option<u64>,
        each: &mut impl FnMut(Piece),
    ) {
        let entry = self.entry(start).filter(|_| is_sealed);
        let Some(entry) = entry else {
            return self.walk(start, stop, false, previous, each);
        };
        let covered = entry.end.min(stop);
        match self.is_sound(&entry) {
            true => self.walk(start, covered, true, previous, each),
            false => each(Piece::Left {
                from: start,
                to: covered,
                why: Why::Checksum,
            }),
        }
        if covered < stop {
            self.walk(covered, stop, false, previous, each);
        }
    }

    /// Walks from record to record.
    fn walk(
        &self,
        start: u64,
        stop: u64,
        sealed: bool,
        previous: &mut Option<u64>,
        each: &mut impl FnMut(Piece),
    ) {
        let (mut from, mut position, mut records) = (start, start, 0);
        let mut flush = |from, to, records, left: Option<(u64, Why)>| {
            if from < to {
                each(Piece::Records {
                    from,
                    to,
                    records,
                    sealed,
                });
            }
            if let Some((end, why)) = left {
                each(Piece::Left {
                    from: to,
                    to: end,
                    why,
                });
            }
        };
        while position < stop {
            let Some(header) = self.record(position, stop) else {
                return flush(from, position, records, Some((stop, Why::Structure)));
            };
            let next = position + header.bytes();
            let why = match header.flags & OPEN {
                0 => self.check_time(position, header, sealed, previous),
                _ => Some(Why::Open),
            };
            if why.is_some() {
                flush(from, position, records, why.map(|why| (next, why)));
                (from, records) = (next, 0);
            } else {
                records += u64::from(header.flags & (PADDING | DISCARDED) == 0);
            }
            position = next;
        }
        flush(from, position, records, None);
    }

    /// Returns [`Why::Time`] if the time of a record without a valid checksum is impossible.
    fn check_time(
        &self,
        position: u64,
        header: Header,
        sealed: bool,
        previous: &mut Option<u64>,
    ) -> Option<Why> {
        if header.flags & TIMED == 0 {
            return None;
        }
        let time = self.data(position + HEADER_BYTES);
        let earliest = previous
            .unwrap_or(self.opened_ns)
            .saturating_sub(CLOCK_SLACK_NS);
        if !sealed && time < earliest {
            return Some(Why::Time);
        }
        *previous = Some(time);
        None
    }
}
