// SPDX-License-Identifier: GPL-2.0

//! The records of fast channels. A recording of one has a file for each CPU that holds nothing but
//! records, one after the other; [`RecordReader`] reads it.

#![deny(unsafe_code)]

use std::io;
use std::io::Read;

use thiserror::Error;

/// Records begin at multiples of this, in a buffer and in a recording.
pub const ALIGN: u64 = 8;

/// The start of each record, `struct relay_fast_record`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Bytes of data, without this header, the time and the padding to [`ALIGN`].
    pub len: u32,
    /// The client's type.
    pub ty: u16,
    /// [`Header::TIMED`], ...
    pub flags: u16,
}

impl Header {
    /// Bytes of a header.
    pub const LEN: u64 = 8;
    /// A time is between header and data: 8 bytes, nanoseconds of `CLOCK_MONOTONIC`.
    pub const TIMED: u16 = 1;
    /// The writer has discarded the record.
    pub const DISCARDED: u16 = 2;
    /// Not a record, but the rest of a sub-buffer.
    pub const PADDING: u16 = 4;

    /// The header in the 8 bytes at the start of a record.
    pub const fn decode(bytes: [u8; 8]) -> Self {
        let [a, b, c, d, e, f, g, h] = bytes;
        Self {
            len: u32::from_ne_bytes([a, b, c, d]),
            ty: u16::from_ne_bytes([e, f]),
            flags: u16::from_ne_bytes([g, h]),
        }
    }

    /// The bytes of the header.
    pub const fn encode(self) -> [u8; 8] {
        let [a, b, c, d] = self.len.to_ne_bytes();
        let [e, f] = self.ty.to_ne_bytes();
        let [g, h] = self.flags.to_ne_bytes();
        [a, b, c, d, e, f, g, h]
    }

    /// Returns true if a time follows.
    pub const fn is_timed(self) -> bool {
        self.flags & Self::TIMED != 0
    }

    /// Returns true if readers skip the record: padding, or a discarded record.
    pub const fn is_skipped(self) -> bool {
        self.flags & (Self::DISCARDED | Self::PADDING) != 0
    }

    /// Bytes from the start of this record to the start of the next.
    pub fn size(self) -> u64 {
        let time = if self.is_timed() { 8 } else { 0 };
        Self::LEN + time + ((u64::from(self.len) + (ALIGN - 1)) & !(ALIGN - 1))
    }
}

/// A record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The client's type.
    pub ty: u16,
    /// Nanoseconds of `CLOCK_MONOTONIC`, if the record has a time.
    pub time: Option<u64>,
    /// The data.
    pub data: Vec<u8>,
}

/// Why a file of records cannot be read to its end.
#[derive(Debug, Error)]
pub enum ReadError {
    /// The system refused.
    #[error("cannot read")]
    Io(#[from] io::Error),
    /// Something other than a record.
    #[error("at byte {position} a record of {size} bytes, more than a sub-buffer has")]
    TooLong {
        /// Bytes of the file before the record.
        position: u64,
        /// The size that it claims to have.
        size: u64,
    },
}

/// The records in a file of a recording, in the order in which they were reserved.
///
/// Padding and discarded records are left out. A file may end inside a record, when the disk was
/// full or the recorder was killed: the records end there, and [`RecordReader::truncated`] says so.
#[derive(Debug)]
pub struct RecordReader<R> {
    reader: R,
    limit: u64,
    position: u64,
    truncated: u64,
    bytes: Vec<u8>,
}

impl<R: Read> RecordReader<R> {
    /// Reads from `reader`, which should be buffered. No record is longer than `subbuf_size`, the
    /// bytes of a sub-buffer of the channel.
    pub fn new(reader: R, subbuf_size: usize) -> Self {
        Self {
            reader,
            limit: u64::try_from(subbuf_size).unwrap_or(u64::MAX),
            position: 0,
            truncated: 0,
            bytes: Vec::new(),
        }
    }

    /// Bytes of the unfinished record at the end of the file. 0 before the end is reached.
    pub fn truncated(&self) -> u64 {
        self.truncated
    }

    /// Reads the next record into `record`, whose memory is reused. Returns whether there was one.
    pub fn read(&mut self, record: &mut Record) -> Result<bool, ReadError> {
        loop {
            let mut head = [0; 8];
            let len = read_up_to(&mut self.reader, &mut head)?;
            if len < head.len() {
                self.truncated = u64::try_from(len).unwrap_or(u64::MAX);
                return Ok(false);
            }
            let header = Header::decode(head);
            let size = header.size();
            let too_long = || ReadError::TooLong {
                position: self.position,
                size,
            };
            if size > self.limit {
                return Err(too_long());
            }
            let body = usize::try_from(size - Header::LEN).map_err(|_| too_long())?;
            self.bytes.resize(body, 0);
            let len = read_up_to(&mut self.reader, &mut self.bytes)?;
            if len < body {
                let len = u64::try_from(len).unwrap_or(u64::MAX);
                self.truncated = Header::LEN.saturating_add(len);
                return Ok(false);
            }
            self.position = self.position.saturating_add(size);
            if header.is_skipped() {
                continue;
            }
            let (time, data) = match self.bytes.split_first_chunk() {
                Some((time, data)) if header.is_timed() => (Some(u64::from_ne_bytes(*time)), data),
                _ => (None, self.bytes.as_slice()),
            };
            record.ty = header.ty;
            record.time = time;
            record.data.clear();
            let len = usize::try_from(header.len).unwrap_or(usize::MAX);
            record.data.extend(data.get(..len).unwrap_or_default());
            return Ok(true);
        }
    }
}

impl<R: Read> Iterator for RecordReader<R> {
    type Item = Result<Record, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut record = Record::default();
        match self.read(&mut record) {
            Ok(true) => Some(Ok(record)),
            Ok(false) => None,
            Err(error) => Some(Err(error)),
        }
    }
}

fn read_up_to(reader: &mut impl Read, into: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while let Some(room) = into.get_mut(done..).filter(|room| !room.is_empty()) {
        match reader.read(room) {
            Ok(0) => break,
            Ok(len) => done += len,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The bytes of a record, as the kernel lays them out.
    fn encode(record: &Record, flags: u16) -> Vec<u8> {
        let timed = if record.time.is_some() {
            Header::TIMED
        } else {
            0
        };
        let header = Header {
            len: u32::try_from(record.data.len()).unwrap(),
            ty: record.ty,
            flags: flags | timed,
        };
        let mut bytes = header.encode().to_vec();
        bytes.extend(record.time.iter().flat_map(|time| time.to_ne_bytes()));
        bytes.extend(&record.data);
        bytes.resize(bytes.len().next_multiple_of(8), 0xee);
        assert_eq!(u64::try_from(bytes.len()).unwrap(), header.size());
        bytes
    }

    fn records() -> impl Strategy<Value = Vec<(Record, u16)>> {
        let record = (
            any::<u16>(),
            any::<Option<u64>>(),
            prop::collection::vec(any::<u8>(), 0..40),
            prop_oneof![4 => Just(0), 1 => Just(Header::DISCARDED), 1 => Just(Header::PADDING)],
        );
        let record = record.prop_map(|(ty, time, data, flags)| (Record { ty, time, data }, flags));
        prop::collection::vec(record, 0..20)
    }

    #[test]
    fn a_header_is_what_the_kernel_calls_one() {
        // __u32 len, __u16 type, __u16 flags
        let mut bytes = 3u32.to_ne_bytes().to_vec();
        bytes.extend(7u16.to_ne_bytes());
        bytes.extend(1u16.to_ne_bytes());
        let bytes = bytes.try_into().unwrap();
        let header = Header::decode(bytes);
        let expected = Header {
            len: 3,
            ty: 7,
            flags: Header::TIMED,
        };
        assert_eq!(header, expected);
        assert_eq!(header.encode(), bytes);
        assert_eq!(header.size(), 24);
        let longest = Header {
            len: u32::MAX,
            ..header
        };
        assert_eq!(longest.size(), 16 + (1 << 32));
    }

    #[test]
    fn a_record_longer_than_a_sub_buffer_is_an_error() {
        let record = Record {
            data: vec![1; 100],
            ..Record::default()
        };
        let mut bytes = encode(&record, 0);
        bytes.extend([0xff; 8]);
        let mut reader = RecordReader::new(bytes.as_slice(), 4096);
        assert_eq!(reader.next().unwrap().unwrap(), record);
        assert!(matches!(
            reader.next(),
            Some(Err(ReadError::TooLong { position: 112, .. }))
        ));
    }

    proptest! {
        /// Everything written is read, in order, wherever the file ends.
        #[test]
        fn records_come_back(records in records(), cut: prop::sample::Index) {
            let mut bytes = Vec::new();
            let mut whole = Vec::new();
            let mut ends = vec![0];
            for (record, flags) in &records {
                bytes.extend(encode(record, *flags));
                ends.push(bytes.len());
            }
            let cut = cut.index(bytes.len() + 1);
            for ((record, flags), end) in records.iter().zip(&ends[1..]) {
                if *end <= cut && *flags == 0 {
                    whole.push(record.clone());
                }
            }
            let mut reader = RecordReader::new(&bytes[..cut], 4096);
            let read: Vec<_> = reader.by_ref().map(Result::unwrap).collect();
            prop_assert_eq!(read, whole);
            let last = ends.iter().filter(|end| **end <= cut).max().unwrap();
            prop_assert_eq!(reader.truncated(), u64::try_from(cut - last).unwrap());
        }

        /// Whatever the bytes, reading terminates and takes no more memory than allowed.
        #[test]
        fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            for record in RecordReader::new(bytes.as_slice(), 64) {
                let Ok(record) = record else { break };
                prop_assert!(record.data.len() <= 56);
            }
        }
    }
}
