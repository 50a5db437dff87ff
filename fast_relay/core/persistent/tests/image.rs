// SPDX-License-Identifier: GPL-2.0

//! Memory of a channel as left by the kernel, written by the ring's own algorithm.

use super::super::*;
use crate::ring::Header as Record;
use crate::ring::LocalWords;
use crate::ring::Padding;
use crate::ring::Ring;
use crate::ring::Word;
use crate::ring::Words;
use crate::ring::DISCARDED;
use crate::ring::HEADER_BYTES;
use crate::ring::OPEN;
use crate::ring::PADDING;
use crate::ring::TIMED;
use std::cell::Cell;

/// Time at which the channel was opened.
pub const OPENED: u64 = 1_000_000_000;

/// A committed record: position, type, data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    pub position: u64,
    pub kind: u16,
    pub data: Vec<u8>,
}

/// Memory with one writer for each CPU.
pub struct Image {
    words: Vec<Cell<u64>>,
    pub layout: Layout,
    limits: Vec<Cell<u64>>,
    clock: Cell<u64>,
    loads: Cell<u64>,
}

impl Memory for Image {
    fn load(&self, at: u64) -> u64 {
        self.loads.set(self.loads.get() + 1);
        let word = self.words.get(usize::try_from(at / 8).unwrap());
        word.map_or(0, Cell::get)
    }
}

impl MemoryMut for Image {
    fn store(&self, at: u64, word: u64) {
        self.words[usize::try_from(at / 8).unwrap()].set(word);
    }
}

/// A reserved record.
pub struct Reserved {
    cpu: u64,
    pub position: u64,
    pub header: Record,
}

impl Image {
    /// Makes memory for `cpus` CPUs, full of older bytes.
    pub fn new(cpus: u64, subbuf_size: usize, n_subbufs: usize, overwrite: bool) -> Self {
        let ring = Ring::new(subbuf_size, n_subbufs, overwrite).unwrap();
        let layout = Layout::new(ring, cpus, 100).unwrap();
        let count = layout.bytes() / 8;
        let image = Self {
            words: (0..count)
                .map(|at| Cell::new(at.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
                .collect(),
            layout,
            limits: (0..cpus).map(|_| Cell::new(0)).collect(),
            clock: Cell::new(OPENED),
            loads: Cell::new(0),
        };
        for cpu in 0..cpus {
            checksum::remove(&image, &layout, cpu);
            for at in (0..2 * PAGE).step_by(8) {
                image.store(layout.ctl_at(cpu) + at, 0);
            }
            image.store(layout.ctl_at(cpu) + ctl::MAGIC_VERSION, CTL_MAGIC);
        }
        image
    }

    /// Returns the memory as bytes.
    pub fn bytes(&self) -> Vec<u8> {
        self.words
            .iter()
            .flat_map(|word| word.get().to_le_bytes())
            .collect()
    }

    /// Reserves a record; with a time if the flags have it.
    pub fn reserve(&self, cpu: u64, kind: u16, len: u32, flags: u16) -> Option<Reserved> {
        let header = Record { len, kind, flags };
        let writer = Writer { image: self, cpu };
        let (grant, time) = self
            .layout
            .ring()
            .reserve(&writer, header.bytes(), || {
                self.clock.set(self.clock.get() + 10);
                self.clock.get()
            })
            .ok()?;
        let reserved = Reserved {
            cpu,
            position: grant.start,
            header,
        };
        if flags & TIMED != 0 {
            self.put(&reserved, 8, &time.to_le_bytes());
        }
        Some(reserved)
    }

    /// Writes bytes of the record.
    pub fn put(&self, reserved: &Reserved, at: u64, bytes: &[u8]) {
        for (i, byte) in bytes.iter().enumerate() {
            let at = at + u64::try_from(i).unwrap();
            let place = self
                .layout
                .data_at(reserved.cpu, reserved.position + (at & !7));
            let mut word = self.load(place).to_le_bytes();
            word[usize::try_from(at & 7).unwrap()] = *byte;
            self.store(place, u64::from_le_bytes(word));
        }
    }

    /// Stores the header, with more flags.
    pub fn head(&self, reserved: &Reserved, flags: u16) {
        let header = Record {
            flags: reserved.header.flags | flags,
            ..reserved.header
        };
        self.put(reserved, 0, &header.to_word().to_le_bytes());
    }

    /// Writes all of the data, and commits.
    pub fn commit(&self, reserved: &Reserved, discard: bool) -> Option<Committed> {
        let len = usize::try_from(reserved.header.len).unwrap();
        let data: Vec<u8> = (0..len)
            .map(|at| (at as u8) ^ (reserved.position as u8))
            .collect();
        let at = HEADER_BYTES
            + if reserved.header.flags & TIMED != 0 {
                8
            } else {
                0
            };
        self.put(reserved, at, &data);
        self.head(reserved, if discard { DISCARDED } else { 0 });
        self.layout.ring().commit(&Writer {
            image: self,
            cpu: reserved.cpu,
        });
        let (position, kind) = (reserved.position, reserved.header.kind);
        (!discard).then_some(Committed {
            position,
            kind,
            data,
        })
    }

    /// Writes a whole record.
    pub fn write(&self, cpu: u64, kind: u16, len: u32, flags: u16) -> Option<Committed> {
        self.commit(&self.reserve(cpu, kind, len, flags)?, false)
    }

    /// Returns the number of words that have been read.
    pub fn loads(&self) -> u64 {
        self.loads.get()
    }

    /// Seals all CPUs.
    pub fn seal(&self, reason: checksum::Reason) {
        for cpu in 0..self.layout.cpus() {
            let mut sealing = checksum::Sealing::begin(self, &self.layout, cpu, reason);
            while !sealing.step(self, &self.layout) {}
        }
    }

    /// Returns the write position of a CPU.
    pub fn position(&self, cpu: u64) -> u64 {
        Writer { image: self, cpu }.reserve().position()
    }
}

/// Returns the recovered records and pieces.
pub fn recovered<M: Memory + ?Sized>(
    memory: &M,
    layout: &Layout,
    cpu: u64,
) -> (Vec<Committed>, Vec<validate::Piece>) {
    let (mut records, mut pieces) = (Vec::new(), Vec::new());
    let found = validate::cpu(memory, layout, cpu, OPENED, |piece| pieces.push(piece));
    let Ok(found) = found else {
        return (records, pieces);
    };
    let mut at = found.kept;
    for piece in &pieces {
        let (from, to) = match *piece {
            validate::Piece::Records { from, to, .. } | validate::Piece::Left { from, to, .. } => {
                (from, to)
            }
        };
        assert!(from == at && from < to, "{pieces:?}");
        at = to;
        let validate::Piece::Records { records: count, .. } = *piece else {
            continue;
        };
        let before = records.len();
        let mut position = from;
        while position < to {
            let header = Record::from_word(memory.load(layout.data_at(cpu, position)));
            assert_eq!(header.flags & OPEN, 0);
            if header.flags & (PADDING | DISCARDED) == 0 {
                let start = position + HEADER_BYTES + if header.flags & TIMED != 0 { 8 } else { 0 };
                let data = (0..u64::from(header.len)).map(|byte| {
                    let word = memory.load(layout.data_at(cpu, (start + byte) & !7));
                    word.to_le_bytes()[usize::try_from((start + byte) & 7).unwrap()]
                });
                records.push(Committed {
                    position,
                    kind: header.kind,
                    data: data.collect(),
                });
            }
            position += header.bytes();
        }
        assert_eq!(
            (position, records.len() - before),
            (to, usize::try_from(count).unwrap())
        );
    }
    assert_eq!(at, found.reserve.position().max(found.kept));
    (records, pieces)
}

/// Writer of a CPU, without a reader.
struct Writer<'a> {
    image: &'a Image,
    cpu: u64,
}

impl Writer<'_> {
    fn at(&self, at: u64) -> u64 {
        self.image.layout.ctl_at(self.cpu) + at
    }
    fn limit(&self) -> &Cell<u64> {
        &self.image.limits[usize::try_from(self.cpu).unwrap()]
    }
}

impl Words for Writer<'_> {
    fn reserve(&self) -> Word {
        Word(self.image.load(self.at(ctl::RESERVE)))
    }
    fn limit(&self) -> u64 {
        Writer::limit(self).get()
    }
    fn committed(&self) -> u64 {
        self.image.load(self.at(ctl::COMMITTED))
    }
    fn stalled(&self) -> u64 {
        0
    }
    fn consumed(&self) -> u64 {
        self.image.load(self.at(PAGE))
    }
    fn watermark(&self) -> u64 {
        0
    }
}

impl LocalWords for Writer<'_> {
    fn exchange(&self, old: Word, new: Word) -> Result<(), Word> {
        assert_eq!(self.reserve(), old);
        self.image.store(self.at(ctl::RESERVE), new.0);
        Ok(())
    }
    fn set_limit(&self, limit: u64) {
        Writer::limit(self).set(limit);
    }
    fn exchange_committed(&self, old: u64, new: u64) -> bool {
        assert_eq!(self.committed(), old);
        self.image.store(self.at(ctl::COMMITTED), new);
        true
    }
    fn set_stalled(&self, _stalled: u64) {}
    fn add_lost(&self) {
        let at = self.at(ctl::LOST);
        self.image.store(at, self.image.load(at) + 1);
    }
    fn add_overwritten(&self, bytes: u64) {
        let at = self.at(ctl::OVERWRITTEN);
        self.image.store(at, self.image.load(at) + bytes);
    }
    fn pad(&self, padding: Padding) {
        let header = Record {
            len: u32::try_from(padding.bytes - HEADER_BYTES).unwrap(),
            kind: 0,
            flags: PADDING,
        };
        self.image.store(
            self.image.layout.data_at(self.cpu, padding.start),
            header.to_word(),
        );
    }
    fn fence(&self) {}
}
