// SPDX-License-Identifier: GPL-2.0

//! Header of a channel's memory: three copies of its description, each with a checksum.
//!
//! A valid copy is used. Otherwise each bit is taken from the majority of copies, and the result
//! must have the right checksum.

use super::layout::Layout;
use super::layout::PAGE;
use super::Crc;
use crate::ring::Ring;

/// Number of consecutive copies.
pub const COPIES: usize = 3;
/// Distance in bytes between the starts of copies.
pub const COPY_BYTES: usize = 512;
/// Bytes of a name.
pub const NAME_BYTES: usize = 64;

const MAGIC: u64 = u64::from_le_bytes(*b"ferrofly");
const VERSION: u64 = 1;
/// Words of a copy: numbers, names, and the checksum.
const NUMBERS: usize = 13;
const NAME_WORDS: usize = NAME_BYTES / 8;
const WORDS: usize = NUMBERS + 2 * NAME_WORDS + 1;
const _: () = assert!(WORDS * 8 <= COPY_BYTES);
const _: () = assert!(COPIES * COPY_BYTES <= PAGE as usize);

/// Text, padded with zeros.
type Name = [u8; NAME_BYTES];

/// Description of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Number of bytes of the memory, header included.
    pub bytes: u64,
    /// Number of channels opened before in memory of that name.
    pub opening: u64,
    /// Random number of the boot.
    pub boot: [u64; 2],
    /// Time at which the channel was opened: nanoseconds of CLOCK_MONOTONIC, the clock of the
    /// records.
    pub monotonic_ns: u64,
    /// That time in nanoseconds since 1970.
    pub real_ns: u64,
    /// Number of CPUs with a buffer.
    pub cpus: u64,
    /// Number of bytes of a sub-buffer.
    pub subbuf_size: u64,
    /// Number of sub-buffers of a CPU.
    pub n_subbufs: u64,
    /// True if the oldest records are lost rather than the newest.
    pub overwrite: bool,
    /// Number of bytes of the text that describes the records.
    pub format_bytes: u64,
    /// Checksum of that text.
    pub format_crc: u32,
    /// The channel's name.
    pub name: Name,
    /// The kernel's version.
    pub release: Name,
}

/// Condition of the copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repair {
    /// All are equal.
    Intact,
    /// This many are damaged; another one was used.
    Copies(usize),
    /// All are damaged; each bit is from two copies.
    Voted,
}

/// Reason why there is no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderError {
    /// No copy has the form of a header.
    Absent,
    /// The header is damaged beyond repair.
    Damaged,
    /// Another version of this layout, with this number.
    Version(u64),
    /// The header is valid, but describes no memory of this length.
    Impossible,
}

type Words = [u64; WORDS];

impl Header {
    /// Returns the layout of the memory; `None` if it is impossible.
    pub fn layout(&self) -> Option<Layout> {
        let size = |size| usize::try_from(size).ok();
        let ring = Ring::new(
            size(self.subbuf_size)?,
            size(self.n_subbufs)?,
            self.overwrite,
        )
        .ok()?;
        let layout = Layout::new(ring, self.cpus, self.format_bytes)?;
        (layout.bytes() <= self.bytes).then_some(layout)
    }

    /// Encodes a copy.
    pub fn encode(&self) -> [u8; COPY_BYTES] {
        let numbers: [u64; NUMBERS] = [
            MAGIC,
            VERSION,
            self.bytes,
            self.opening,
            self.boot[0],
            self.boot[1],
            self.monotonic_ns,
            self.real_ns,
            self.cpus,
            self.subbuf_size,
            self.n_subbufs,
            self.format_bytes,
            u64::from(self.format_crc) << 1 | u64::from(self.overwrite),
        ];
        let mut bytes = [0; COPY_BYTES];
        let words = numbers.iter().map(|number| number.to_le_bytes());
        for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word);
        }
        let names = [self.name, self.release];
        for (to, name) in bytes[NUMBERS * 8..].chunks_exact_mut(NAME_BYTES).zip(names) {
            to.copy_from_slice(&name);
        }
        let crc = Crc::new().bytes(&bytes[..(WORDS - 1) * 8]).finish();
        bytes[(WORDS - 1) * 8..WORDS * 8].copy_from_slice(&u64::from(crc).to_le_bytes());
        bytes
    }

    /// Reads the copies at the start of memory of `bytes` bytes.
    pub fn decode(
        memory: &[u8; COPIES * COPY_BYTES],
        bytes: u64,
    ) -> Result<(Self, Repair), HeaderError> {
        let mut copies = [[0; WORDS]; COPIES];
        for (copy, from) in copies.iter_mut().zip(memory.chunks_exact(COPY_BYTES)) {
            *copy = words(from);
        }
        let first = copies.iter().find(|copy| is_whole(copy));
        let voted = vote(&copies);
        let (found, repair) = match first {
            Some(first) => match copies.iter().filter(|copy| *copy != first).count() {
                0 => (*first, Repair::Intact),
                others => (*first, Repair::Copies(others)),
            },
            None if is_whole(&voted) => (voted, Repair::Voted),
            None if copies.iter().any(|copy| copy[0] == MAGIC) => return Err(HeaderError::Damaged),
            None => return Err(HeaderError::Absent),
        };
        if found[0] != MAGIC {
            return Err(HeaderError::Absent);
        }
        if found[1] != VERSION {
            return Err(HeaderError::Version(found[1]));
        }
        let header = Self::from_words(&found).ok_or(HeaderError::Impossible)?;
        if header.bytes != bytes || header.layout().is_none() {
            return Err(HeaderError::Impossible);
        }
        Ok((header, repair))
    }

    fn from_words(words: &Words) -> Option<Self> {
        let name = |at: usize| {
            let mut name = [0; NAME_BYTES];
            for (to, word) in name.chunks_exact_mut(8).zip(&words[at..]) {
                to.copy_from_slice(&word.to_le_bytes());
            }
            name
        };
        Some(Self {
            bytes: words[2],
            opening: words[3],
            boot: [words[4], words[5]],
            monotonic_ns: words[6],
            real_ns: words[7],
            cpus: words[8],
            subbuf_size: words[9],
            n_subbufs: words[10],
            format_bytes: words[11],
            format_crc: u32::try_from(words[12] >> 1).ok()?,
            overwrite: words[12] & 1 != 0,
            name: name(NUMBERS),
            release: name(NUMBERS + NAME_WORDS),
        })
    }
}

fn words(bytes: &[u8]) -> Words {
    let mut words = [0; WORDS];
    for (word, from) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = from
            .first_chunk()
            .map_or(0, |from| u64::from_le_bytes(*from));
    }
    words
}

fn is_whole(words: &Words) -> bool {
    let crc = words[..WORDS - 1]
        .iter()
        .fold(Crc::new(), |crc, word| crc.word(*word));
    words[WORDS - 1] == u64::from(crc.finish())
}

fn vote(copies: &[Words; COPIES]) -> Words {
    let [a, b, c] = copies;
    let mut words = [0; WORDS];
    for (word, ((a, b), c)) in words.iter_mut().zip(a.iter().zip(b).zip(c)) {
        *word = (a & b) | (b & c) | (a & c);
    }
    words
}
