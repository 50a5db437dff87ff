// SPDX-License-Identifier: GPL-2.0

//! The kernel's side of a fast buffer, in an ordinary file: a writer that follows the protocol of
//! `<linux/ferrotrace_relay.h>`, one step of it at a time.

use std::fs::File;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::atomic::fence;

use ferrotrace::fast::record::Header;
use ferrotrace::fast::record::Record;
use ferrotrace::fast::ring::abi;
use ferrotrace::relay::mapping::WritableMapping;

/// The properties of a simulated buffer.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub subbuf_size: u64,
    pub n_subbufs: u64,
    pub overwrite: bool,
}

impl Shape {
    pub fn size(self) -> u64 {
        self.subbuf_size * self.n_subbufs
    }
}

/// The writer of one CPU.
pub struct Writer {
    map: WritableMapping,
    shape: Shape,
    position: u64,
    nested: u64,
}

/// A reserved record.
pub struct Slot {
    at: usize,
    record: Record,
}

impl Writer {
    /// Creates the file of a buffer whose positions begin at `start`, a multiple of a sub-buffer.
    pub fn create(path: &Path, cpu: u32, shape: Shape, start: u64) -> Self {
        let len = abi::DATA + usize::try_from(shape.size()).unwrap();
        // The file has another name until it is complete.
        let new = path.with_extension("new");
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&new)
            .unwrap();
        file.set_len(u64::try_from(len).unwrap()).unwrap();
        let map = WritableMapping::new(&file, 0, NonZeroUsize::new(len).unwrap()).unwrap();
        let writer = Self {
            map,
            shape,
            position: start,
            nested: 0,
        };
        let two = |low: u32, high: u32| u64::from(high) << 32 | u64::from(low);
        writer.set(abi::MAGIC_VERSION, two(abi::MAGIC, abi::VERSION));
        let flags = if shape.overwrite { abi::OVERWRITE } else { 0 };
        writer.set(abi::CPU_FLAGS, two(cpu, flags));
        writer.set(abi::SUBBUF_SIZE, shape.subbuf_size);
        writer.set(abi::N_SUBBUFS, shape.n_subbufs);
        writer.set(abi::MASK, shape.size() - 8);
        writer.set(abi::CONSUMER + abi::CONSUMED, start);
        writer.set(abi::COMMITTED, start);
        writer.set_reserve();
        std::fs::rename(&new, path).unwrap();
        writer
    }

    pub fn set(&self, offset: usize, value: u64) {
        self.map.store(offset, value).unwrap();
    }

    pub fn get(&self, offset: usize) -> u64 {
        self.map.load(offset).unwrap()
    }

    pub fn consumed(&self) -> u64 {
        let consumed = self.get(abi::CONSUMER + abi::CONSUMED);
        fence(Ordering::Acquire);
        consumed
    }

    pub fn position(&self) -> u64 {
        self.position
    }

    fn set_reserve(&self) {
        let reserve = self.position << abi::POSITION_SHIFT | self.nested;
        self.set(abi::RESERVE, reserve);
    }

    fn at(&self, position: u64) -> usize {
        abi::DATA + usize::try_from(position % self.shape.size()).unwrap()
    }

    /// Reserves a record; returns `None` if the record is lost.
    pub fn reserve(&mut self, record: Record) -> Option<Slot> {
        let header = Self::header(&record, 0);
        let left = self.shape.subbuf_size - self.position % self.shape.subbuf_size;
        let fits = header.size() <= left;
        let from = if fits {
            self.position
        } else {
            self.position + left
        };
        // A sub-buffer is free when everything in it has been read or, in overwrite mode, is
        // complete.
        let needed = match (self.shape.overwrite, self.nested) {
            (false, _) => self.consumed(),
            (true, 0) => from,
            (true, _) => self.get(abi::COMMITTED),
        };
        let end = from - from % self.shape.subbuf_size + self.shape.subbuf_size;
        let room = end <= needed + self.shape.size();
        if !room || header.size() > self.shape.subbuf_size {
            self.set(abi::LOST, self.get(abi::LOST) + 1);
            return None;
        }
        if self.nested == 0 {
            self.set(abi::COMMITTED, self.position);
        }
        let padding = self.at(self.position);
        self.nested += 1;
        self.position = from + header.size();
        self.set_reserve();
        // The reservation becomes visible before the data.
        fence(Ordering::Release);
        if !fits {
            let header = Header {
                len: u32::try_from(left - 8).unwrap(),
                ty: 0,
                flags: Header::PADDING,
            };
            self.set(padding, u64::from_ne_bytes(header.encode()));
        }
        Some(Slot {
            at: self.at(from),
            record,
        })
    }

    /// Writes a reserved record.
    pub fn fill(&self, slot: &Slot, flags: u16) {
        let header = Self::header(&slot.record, flags);
        let mut words = vec![u64::from_ne_bytes(header.encode())];
        words.extend(slot.record.time);
        for chunk in slot.record.data.chunks(8) {
            let mut bytes = [0x55; 8];
            bytes[..chunk.len()].copy_from_slice(chunk);
            words.push(u64::from_ne_bytes(bytes));
        }
        for (i, word) in words.into_iter().enumerate() {
            self.set(slot.at + 8 * i, word);
        }
    }

    /// Commits the last open record.
    pub fn commit(&mut self) {
        self.nested -= 1;
        self.set_reserve();
    }

    /// Reserves, writes and commits a record. Returns true if the record was written.
    pub fn write(&mut self, record: Record, flags: u16) -> bool {
        let Some(slot) = self.reserve(record) else {
            return false;
        };
        self.fill(&slot, flags);
        self.commit();
        true
    }

    pub fn close(&self) {
        self.set(abi::CLOSED, 1);
    }

    fn header(record: &Record, flags: u16) -> Header {
        let timed = if record.time.is_some() {
            Header::TIMED
        } else {
            0
        };
        Header {
            len: u32::try_from(record.data.len()).unwrap(),
            ty: record.ty,
            flags: flags | timed,
        }
    }
}
