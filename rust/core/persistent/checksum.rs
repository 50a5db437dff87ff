// SPDX-License-Identifier: GPL-2.0

//! Checksums of a CPU's buffer, made when nothing more is going to be written, or nobody knows.
//!
//! Each sub-buffer has an entry for where its bytes begin and end, as positions, and their checksum. The head has the words of
//! the control page. An entry for other positions than those that a sub-buffer has now is from before, and counts for nothing.

use super::ctl;
use super::Crc;
use super::Layout;
use super::Memory;
use super::MemoryMut;
use crate::ring::Word;

const MAGIC: u64 = u64::from_le_bytes(*b"ferrseal");
const HEAD_WORDS: usize = 6;
const ENTRY_WORDS: usize = 3;
const HEAD_BYTES: u64 = 64;
const ENTRY_BYTES: u64 = 24;

/// Bytes of a seal.
pub(super) fn bytes(n_subbufs: u64) -> u64 {
    HEAD_BYTES + n_subbufs * ENTRY_BYTES
}

/// Why a seal was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The kernel panicked: all other CPUs were stopped.
    Panic,
    /// It was about to restart, or to halt; other CPUs may have gone on writing.
    Restart,
    /// The channel was closed.
    Closed,
}

impl Reason {
    const ALL: [Self; 3] = [Self::Panic, Self::Restart, Self::Closed];

    fn to_number(self) -> u64 {
        match self {
            Self::Panic => 0,
            Self::Restart => 1,
            Self::Closed => 2,
        }
    }

    /// Whether nobody could write any more.
    pub(super) fn is_final(self) -> bool {
        self != Self::Restart
    }
}

/// The words of the control page when the seal was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The position of the next record, and how many were being written.
    pub reserve: Word,
    /// Everything before it was complete.
    pub committed: u64,
    /// Records that had been lost.
    pub lost: u64,
    /// Bytes that had been overwritten unread.
    pub overwritten: u64,
    /// Why.
    pub reason: Reason,
}

/// The checksum of a sub-buffer, or of its first part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The position where it starts.
    pub start: u64,
    /// The position up to which there is a checksum.
    pub end: u64,
    /// The checksum.
    pub crc: u32,
}

fn checked(words: &[u64]) -> u32 {
    words
        .iter()
        .fold(Crc::new(), |crc, word| crc.word(*word))
        .finish()
}

impl Head {
    fn to_words(self) -> [u64; HEAD_WORDS] {
        let reason = self.reason.to_number();
        let mut words = [
            MAGIC,
            self.reserve.0,
            self.committed,
            self.lost,
            self.overwritten,
            reason,
        ];
        words[5] |= u64::from(checked(&words)) << 32;
        words
    }

    fn from_words(mut words: [u64; HEAD_WORDS]) -> Option<Self> {
        let crc = words[5] >> 32;
        words[5] &= u64::from(u32::MAX);
        if words[0] != MAGIC || crc != u64::from(checked(&words)) {
            return None;
        }
        Some(Self {
            reserve: Word(words[1]),
            committed: words[2],
            lost: words[3],
            overwritten: words[4],
            reason: Reason::ALL
                .into_iter()
                .find(|reason| reason.to_number() == words[5])?,
        })
    }

    /// The head of a CPU's seal, if there is one.
    pub fn load<M: Memory + ?Sized>(memory: &M, layout: &Layout, cpu: u64) -> Option<Self> {
        Self::from_words(load(memory, layout.seal_at(cpu)))
    }
}

impl Entry {
    fn to_words(self) -> [u64; ENTRY_WORDS] {
        let mut words = [self.start, self.end, u64::from(self.crc)];
        words[2] |= u64::from(checked(&words)) << 32;
        words
    }

    fn from_words(mut words: [u64; ENTRY_WORDS]) -> Option<Self> {
        let check = words[2] >> 32;
        words[2] &= u64::from(u32::MAX);
        let entry = Self {
            start: words[0],
            end: words[1],
            crc: u32::try_from(words[2]).ok()?,
        };
        (check == u64::from(checked(&words)) && entry.start < entry.end).then_some(entry)
    }

    /// The entry for the sub-buffer that has this position, whatever round it is of.
    pub fn load<M: Memory + ?Sized>(
        memory: &M,
        layout: &Layout,
        cpu: u64,
        position: u64,
    ) -> Option<Self> {
        Self::from_words(load(memory, Self::at(layout, cpu, position)))
    }

    fn at(layout: &Layout, cpu: u64, position: u64) -> u64 {
        let ring = layout.ring();
        let index = ring.offset(position) >> ring.subbuf_size().trailing_zeros();
        layout.seal_at(cpu) + HEAD_BYTES + index * ENTRY_BYTES
    }
}

fn load<M: Memory + ?Sized, const N: usize>(memory: &M, at: u64) -> [u64; N] {
    let mut words = [0; N];
    let mut at = at;
    for word in &mut words {
        *word = memory.load(at);
        at += 8;
    }
    words
}

fn store<M: MemoryMut + ?Sized>(memory: &M, at: u64, words: &[u64]) {
    let mut at = at;
    for word in words {
        memory.store(at, *word);
        at += 8;
    }
}

/// The checksum of the bytes between two positions of the same sub-buffer.
pub fn checksum<M: Memory + ?Sized>(
    memory: &M,
    layout: &Layout,
    cpu: u64,
    start: u64,
    end: u64,
) -> u32 {
    let at = layout.data_at(cpu, start);
    let words = (0..end.saturating_sub(start)).step_by(8);
    words
        .fold(Crc::new(), |crc, word| crc.word(memory.load(at + word)))
        .finish()
}

/// The seal of a CPU's buffer in the making, in steps of bounded length: buffers may have
/// gigabytes.
#[derive(Clone, Copy, Debug)]
pub struct Sealing {
    cpu: u64,
    head: Head,
    /// The start of the sub-buffer in work.
    start: u64,
    /// The checksum of what is before this position in it.
    at: u64,
    crc: Crc,
    /// The end of all.
    end: u64,
}

impl Sealing {
    /// The most bytes of a step.
    pub const STEP: u64 = 1 << 16;

    /// Reads how far the CPU has written. While it may still write, what it is in the middle of is
    /// left out.
    pub fn begin<M: Memory + ?Sized>(
        memory: &M,
        layout: &Layout,
        cpu: u64,
        reason: Reason,
    ) -> Self {
        let word = |at| memory.load(layout.ctl_at(cpu) + at);
        let head = Head {
            reserve: Word(word(ctl::RESERVE)),
            committed: word(ctl::COMMITTED),
            lost: word(ctl::LOST),
            overwritten: word(ctl::OVERWRITTEN),
            reason,
        };
        let position = head.reserve.position();
        let kept = layout.ring().kept(position);
        let end = match reason.is_final() || head.reserve.in_flight() == 0 {
            true => position,
            false => head.committed.clamp(kept, position),
        };
        Self {
            cpu,
            head,
            start: kept,
            at: kept,
            crc: Crc::new(),
            end,
        }
    }

    /// Goes on with the checksums, by [`Self::STEP`] bytes at most. Returns true when the seal is
    /// there.
    ///
    /// Context: any. Sub-buffers that the CPU enters again between the steps have no valid
    /// checksum.
    pub fn step<M: MemoryMut + ?Sized>(&mut self, memory: &M, layout: &Layout) -> bool {
        let stop = self.end.min(self.start + layout.ring().subbuf_size());
        let until = stop.min(self.at + Self::STEP);
        let data = layout.data_at(self.cpu, self.at);
        let words = (0..until.saturating_sub(self.at)).step_by(8);
        self.crc = words.fold(self.crc, |crc, word| crc.word(memory.load(data + word)));
        self.at = until;
        if until == stop && self.start < stop {
            let entry = Entry {
                start: self.start,
                end: stop,
                crc: self.crc.finish(),
            };
            let place = Entry::at(layout, self.cpu, self.start);
            store(memory, place, &entry.to_words());
            (self.start, self.crc) = (stop, Crc::new());
        }
        let is_done = self.start >= self.end;
        if is_done {
            store(memory, layout.seal_at(self.cpu), &self.head.to_words());
        }
        is_done
    }
}

/// Removes the seal of a CPU.
pub fn remove<M: MemoryMut + ?Sized>(memory: &M, layout: &Layout, cpu: u64) {
    let words = bytes(layout.ring().n_subbufs()) / 8;
    for word in 0..words {
        memory.store(layout.seal_at(cpu) + word * 8, 0);
    }
}
