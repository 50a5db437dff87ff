// SPDX-License-Identifier: GPL-2.0

//! Checksums of a CPU's buffer, made when writing ends, or is about to end.
//!
//! A seal has a head and an entry for each sub-buffer. The head has the words of the control page.
//! An entry has the start and end positions of the sub-buffer's bytes, and their checksum. If the
//! sub-buffer now has other positions, its entry is outdated and ignored.

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

/// Returns the number of bytes of a seal.
pub(super) fn bytes(n_subbufs: u64) -> u64 {
    HEAD_BYTES + n_subbufs * ENTRY_BYTES
}

/// Reason why a seal was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The kernel panicked: all other CPUs were stopped.
    Panic,
    /// The kernel was about to restart, or to halt; other CPUs may have continued to write.
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

    /// Returns true if no CPU could write afterwards.
    pub(super) fn is_final(self) -> bool {
        self != Self::Restart
    }
}

/// Words of the control page at the time of the seal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Position of the next record, and number of records being written.
    pub reserve: Word,
    /// Position before which everything was complete.
    pub committed: u64,
    /// Number of lost records.
    pub lost: u64,
    /// Number of bytes that were overwritten unread.
    pub overwritten: u64,
    /// Reason for the seal.
    pub reason: Reason,
}

/// Checksum of a sub-buffer, or of its first part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Start position.
    pub start: u64,
    /// End position of the bytes with a checksum.
    pub end: u64,
    /// The checksum.
    pub crc: u32,
}

fn crc_of(words: &[u64]) -> u32 {
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
        words[5] |= u64::from(crc_of(&words)) << 32;
        words
    }

    fn from_words(mut words: [u64; HEAD_WORDS]) -> Option<Self> {
        let crc = words[5] >> 32;
        words[5] &= u64::from(u32::MAX);
        if words[0] != MAGIC || crc != u64::from(crc_of(&words)) {
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

    /// Loads the head of a CPU's seal, if there is one.
    pub fn load<M: Memory + ?Sized>(memory: &M, layout: &Layout, cpu: u64) -> Option<Self> {
        Self::from_words(load(memory, layout.seal_at(cpu)))
    }
}

impl Entry {
    fn to_words(self) -> [u64; ENTRY_WORDS] {
        let mut words = [self.start, self.end, u64::from(self.crc)];
        words[2] |= u64::from(crc_of(&words)) << 32;
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
        (check == u64::from(crc_of(&words)) && entry.start < entry.end).then_some(entry)
    }

    /// Loads the entry for the sub-buffer that contains this position. The entry may be for an
    /// earlier round of the ring.
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

/// Computes the checksum of the bytes between two positions of the same sub-buffer.
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

/// Computation of the seal of a CPU's buffer, in steps of bounded length: buffers may have
/// gigabytes.
#[derive(Clone, Copy, Debug)]
pub struct Sealing {
    cpu: u64,
    head: Head,
    /// Start of the present sub-buffer.
    start: u64,
    /// End of the bytes in it that `crc` covers.
    at: u64,
    crc: Crc,
    /// End of all sub-buffers.
    end: u64,
}

impl Sealing {
    /// Maximum number of bytes of a step.
    pub const STEP: u64 = 1 << 16;

    /// Begins the seal at the CPU's present write position. If the CPU may still write, leaves out
    /// the records that it is writing.
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

    /// Continues the checksums, by [`Self::STEP`] bytes at most. Returns true when the seal is
    /// complete.
    ///
    /// Context: any. If the CPU enters a sub-buffer again between the steps, its checksum is not
    /// valid.
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
