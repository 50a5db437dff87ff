// SPDX-License-Identifier: GPL-2.0

//! The records in the file of a CPU, in the order of the file.
//!
//! A file may end anywhere, and may hold anything: bytes that are not a record end it, and are
//! reported.

#![deny(unsafe_code)]

use std::io;
use std::io::Read;

use super::format::FixedFormat;
use super::format::Format;
use super::format::TypedFormats;
use crate::fast::record::ReadError;
use crate::fast::record::Record;
use crate::fast::record::RecordReader;

/// Linux supports no more CPUs on this architecture. A record that names one beyond is wrong about
/// it.
const MAX_CPUS: u32 = 8192;

/// The largest sub-buffer that is accepted, whatever the recording says. It bounds the memory for a
/// record.
const MAX_SUBBUF: usize = 64 << 20;

/// A record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// When it was written, in nanoseconds; 0 if no record of its file has a time.
    pub time: u64,
    /// True if `time` is valid.
    pub timed: bool,
    /// The CPU that wrote it.
    pub cpu: u32,
    /// Its type; 0 if the records carry none.
    pub ty: u16,
    /// Its data.
    pub bytes: Vec<u8>,
}

/// Why a file was not read to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// It ends inside a record.
    Truncated {
        /// The bytes of that record that are there.
        bytes: u64,
    },
    /// Something is not a record; what follows it was left out.
    Corrupt {
        /// Its position in the file.
        at: u64,
    },
}

/// Finds records.
pub trait Source {
    /// The next record. Must not be called again after the end.
    fn next(&mut self) -> io::Result<Option<Event>>;

    /// Returns the damage of the file, known at its end.
    fn damage(&self) -> Option<Damage>;
}

impl<S: Source + ?Sized> Source for Box<S> {
    fn next(&mut self) -> io::Result<Option<Event>> {
        (**self).next()
    }

    fn damage(&self) -> Option<Damage> {
        (**self).damage()
    }
}

/// Up to `len` bytes; fewer only at the end of the file.
fn read_up_to(reader: &mut impl Read, len: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(len);
    reader.take(widen(len)).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// No `usize` of Linux is wider than 64 bits.
fn widen(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}

/// The CPU that a record names, if that is possible.
fn cpu(format: &Format, record: &[u8]) -> Option<u32> {
    format.cpu(record).filter(|&cpu| cpu < MAX_CPUS)
}

/// Records of one size.
#[derive(Debug)]
pub struct FixedSource<'a, R> {
    reader: R,
    format: &'a FixedFormat,
    cpu: u32,
    damage: Option<Damage>,
}

impl<'a, R: Read> FixedSource<'a, R> {
    /// Reads the file of `cpu`.
    pub fn new(reader: R, format: &'a FixedFormat, cpu: u32) -> Self {
        Self {
            reader,
            format,
            cpu,
            damage: None,
        }
    }
}

impl<R: Read> Source for FixedSource<'_, R> {
    fn next(&mut self) -> io::Result<Option<Event>> {
        let size = self.format.record_size;
        let bytes = read_up_to(&mut self.reader, size)?;
        if bytes.len() < size {
            let bytes = widen(bytes.len());
            self.damage = (bytes > 0).then_some(Damage::Truncated { bytes });
            return Ok(None);
        }
        let format = &self.format.format;
        let time = format.time(&bytes);
        Ok(Some(Event {
            time: time.unwrap_or(0),
            timed: time.is_some(),
            cpu: cpu(format, &bytes).unwrap_or(self.cpu),
            ty: 0,
            bytes,
        }))
    }

    fn damage(&self) -> Option<Damage> {
        self.damage
    }
}

/// Records of a fast channel: each with its length and its type, and some with a time.
///
/// A record without a time, in its header or in a field, takes that of the record before it in the
/// file, the first ones that of the first record that has one.
#[derive(Debug)]
pub struct FastSource<'a, R> {
    reader: RecordReader<R>,
    formats: &'a TypedFormats,
    cpu: u32,
    time: Option<u64>,
    damage: Option<Damage>,
}

impl<'a, R: Read> FastSource<'a, R> {
    /// Reads the file of `cpu`, whose sub-buffers have `subbuf_size` bytes if that is known. See
    /// [`FastSource::beginning_at`] for the time of the first records.
    pub fn new(reader: R, formats: &'a TypedFormats, cpu: u32, subbuf_size: Option<usize>) -> Self {
        let max = subbuf_size.map_or(MAX_SUBBUF, |size| size.min(MAX_SUBBUF));
        Self {
            reader: RecordReader::new(reader, max),
            formats,
            cpu,
            time: None,
            damage: None,
        }
    }

    /// Sets the time for the records before the first one that has a time, as found by
    /// [`FastSource::first_time`].
    pub fn beginning_at(self, time: Option<u64>) -> Self {
        Self { time, ..self }
    }

    /// Reads up to the first record that has a time.
    pub fn first_time(mut self) -> io::Result<Option<u64>> {
        while self.time.is_none() && self.next()?.is_some() {}
        Ok(self.time)
    }
}

impl<R: Read> Source for FastSource<'_, R> {
    fn next(&mut self) -> io::Result<Option<Event>> {
        let mut record = Record::default();
        match self.reader.read(&mut record) {
            Ok(true) => {
                let format = self.formats.get(record.ty);
                let field = || format?.time(&record.data);
                self.time = record.time.or_else(field).or(self.time);
                let cpu = format.and_then(|format| cpu(format, &record.data));
                Ok(Some(Event {
                    time: self.time.unwrap_or(0),
                    timed: self.time.is_some(),
                    cpu: cpu.unwrap_or(self.cpu),
                    ty: record.ty,
                    bytes: record.data,
                }))
            }
            Ok(false) => {
                let bytes = self.reader.truncated();
                self.damage = (bytes > 0).then_some(Damage::Truncated { bytes });
                Ok(None)
            }
            Err(ReadError::TooLong { position, .. }) => {
                self.damage = Some(Damage::Corrupt { at: position });
                Ok(None)
            }
            Err(ReadError::Io(error)) => Err(error),
        }
    }

    fn damage(&self) -> Option<Damage> {
        self.damage
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fast::record::Header;

    const FORMAT: &str = "field:u64 time;offset:0;size:8;\nfield:u32 cpu;offset:8;size:4;\n";

    fn drain(source: &mut impl Source) -> Vec<(u64, u32, u16, Vec<u8>)> {
        let mut events = Vec::new();
        while let Some(event) = source.next().unwrap() {
            events.push((event.time, event.cpu, event.ty, event.bytes));
        }
        events
    }

    #[test]
    fn records_of_one_size() {
        let format = FixedFormat::parse(FORMAT).unwrap();
        let mut bytes = Vec::new();
        for (time, cpu) in [(3u64, 2u32), (4, MAX_CPUS), (5, 7)] {
            bytes.extend(time.to_ne_bytes());
            bytes.extend(cpu.to_ne_bytes());
            bytes.extend([0; 4]);
        }
        let mut source = FixedSource::new(&bytes[..37], &format, 1);
        let events = drain(&mut source);
        let [first, second] = &events[..] else {
            panic!("{events:?}");
        };
        assert_eq!((first.0, first.1, &first.3[..]), (3, 2, &bytes[..16]));
        // There is no such CPU: the CPU of the file is taken.
        assert_eq!((second.0, second.1), (4, 1));
        assert_eq!(source.damage(), Some(Damage::Truncated { bytes: 5 }));

        let mut source = FixedSource::new(&bytes[..], &format, 1);
        assert_eq!(drain(&mut source).len(), 3);
        assert_eq!(source.damage(), None);
    }

    #[test]
    fn records_without_any_time() {
        let formats = TypedFormats::parse("").unwrap();
        let mut bytes = Vec::new();
        put(&mut bytes, 0, 1, None, b"one");
        let source = || FastSource::new(&bytes[..], &formats, 4, None);
        assert_eq!(source().first_time().unwrap(), None);
        let event = source().next().unwrap().unwrap();
        assert_eq!((event.time, event.timed), (0, false));
    }

    fn put(bytes: &mut Vec<u8>, flags: u16, ty: u16, time: Option<u64>, data: &[u8]) {
        let len = u32::try_from(data.len()).unwrap();
        bytes.extend(Header { len, ty, flags }.encode());
        bytes.extend(time.iter().flat_map(|time| time.to_ne_bytes()));
        bytes.extend(data);
        bytes.resize(bytes.len().next_multiple_of(8), 0xee);
    }

    #[test]
    fn records_of_a_fast_channel() {
        let text =
            "name: own\nID: 5\nfield:u32 cpu;offset:0;size:4;\nfield:u32 time;offset:4;size:4;";
        let formats = TypedFormats::parse(text).unwrap();
        let own = |cpu: u32, time: u32| [cpu.to_ne_bytes(), time.to_ne_bytes()].concat();
        let mut bytes = Vec::new();
        put(&mut bytes, 0, 1, None, b"early");
        put(&mut bytes, Header::TIMED, 2, Some(10), b"");
        put(&mut bytes, Header::DISCARDED, 3, None, b"not this");
        put(&mut bytes, 0, 1, None, b"untimed");
        put(&mut bytes, Header::PADDING, 0, None, &[0; 100]);
        put(&mut bytes, 0, 5, None, &own(3, 11));
        put(&mut bytes, Header::TIMED, 5, Some(12), &own(MAX_CPUS, 7));
        put(&mut bytes, 0, 5, None, b"short");
        put(&mut bytes, Header::TIMED, 2, Some(9), b"back");
        let expected = [
            (10, 4, 1, b"early".to_vec()),
            (10, 4, 2, b"".to_vec()),
            (10, 4, 1, b"untimed".to_vec()),
            (11, 3, 5, own(3, 11)),
            (12, 4, 5, own(MAX_CPUS, 7)),
            (12, 4, 5, b"short".to_vec()),
            (9, 4, 2, b"back".to_vec()),
        ];
        let source = || FastSource::new(&bytes[..], &formats, 4, Some(4096));
        let first = source().first_time().unwrap();
        assert_eq!(first, Some(10));
        let mut source = source().beginning_at(first);
        assert_eq!(drain(&mut source), expected);
        assert_eq!(source.damage(), None);

        let source = FastSource::new(&bytes[..bytes.len() - 3], &formats, 4, None);
        let mut source = source.beginning_at(first);
        assert_eq!(drain(&mut source), expected[..6]);
        assert_eq!(source.damage(), Some(Damage::Truncated { bytes: 21 }));

        let at = bytes.len().try_into().unwrap();
        put(&mut bytes, 0, 1, None, &[0; 4089]);
        put(&mut bytes, 0, 1, None, b"not reached");
        let source = FastSource::new(&bytes[..], &formats, 4, Some(4096));
        let mut source = source.beginning_at(first);
        assert_eq!(drain(&mut source), expected);
        assert_eq!(source.damage(), Some(Damage::Corrupt { at }));
    }
}
