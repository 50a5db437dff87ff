// SPDX-License-Identifier: GPL-2.0

//! Source-based coverage, which LLVM counts for Rust and C. Sections of an image are written as a
//! raw profile (`.profraw`) that `llvm-profdata` reads. The format's version is 10, which LLVM 19
//! to 22 have; rustc 1.96 uses LLVM 22.
//!
//! ```text
//! header of 16 words of 64 bits: magic, version, bytes of build ids, records, padding, counters,
//!     padding, bytes of bits, padding, bytes of names, then the addresses of counters, bits and
//!     names, tables of C++ and their names, the last kind of values
//! __llvm_prf_data: a record of 64 bytes for each function
//!     0 hash of the name   8 hash of the function   16 counters, 24 bits: from the record
//!     32 function, 40 values   48 number of counters   52 numbers of values of three kinds
//!     60 bytes of bits
//! __llvm_prf_cnts: counters of 8 bytes
//! __llvm_prf_bits: outcomes of conditions
//! __llvm_prf_names: names of functions
//! ```
//!
//! Each section except the first is padded to 8 bytes. The result is the same as from LLVM's own
//! runtime, except for kernel addresses, which are 0: of functions, of values, and of the names.
//! Coverage does not need them.

use super::memory::Memory;
use super::memory::Unreadable;
use super::write_buf::NoRoom;
use super::write_buf::Output;
use core::fmt;

/// Maximum number of bytes of a profile.
pub const MAX_PROFILE: usize = 1 << 28;

pub(super) const MAGIC: u64 = u64::from_be_bytes(*b"\xfflprofr\x81");
/// Version of the format.
pub const PROFILE_VERSION: u64 = 10;
/// Bits of the version for variants of the profile.
const VARIANTS: u64 = !0 << 32;
/// Variants with the same format: counters of LLVM's intermediate code, and their places.
const KNOWN_VARIANTS: u64 = 0b1111 << 55;
/// The last kind of values.
const LAST_KIND: u64 = 2;

pub(super) const HEADER_WORDS: usize = 16;
/// Bytes of a record.
pub(super) const RECORD: usize = 64;

/// A section of an image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Section {
    /// Address.
    pub address: u64,
    /// Number of bytes.
    pub len: usize,
}

/// Sections of an image from which a profile is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sections {
    /// `__llvm_prf_data`
    pub data: Section,
    /// `__llvm_prf_cnts`
    pub counters: Section,
    /// `__llvm_prf_bits`
    pub bits: Section,
    /// `__llvm_prf_names`
    pub names: Section,
}

/// Reason why sections are refused. Records are counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProfileRefusal {
    /// Not version 10 of the format, or a variant with another layout.
    Version(u64),
    /// A section is outside of the memory that belongs to the object.
    Unreadable,
    /// Records or counters are not at a multiple of 8 bytes.
    Misaligned,
    /// A record or a counter is incomplete.
    Incomplete,
    /// The record's counters are not in the section.
    Counters(usize),
    /// The record's bits are not in the section.
    Bits(usize),
    /// The record has values, which no kernel counts.
    Values(usize),
    /// The profile would have more than [`MAX_PROFILE`] bytes.
    TooLarge,
    /// The buffer is too small.
    NoRoom,
}

impl From<Unreadable> for ProfileRefusal {
    fn from(_: Unreadable) -> Self {
        Self::Unreadable
    }
}

impl From<NoRoom> for ProfileRefusal {
    fn from(_: NoRoom) -> Self {
        Self::NoRoom
    }
}

impl fmt::Display for ProfileRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version(version) => write!(f, "unknown version {version:#x}"),
            Self::Unreadable => f.write_str("a section is outside of the object"),
            Self::Misaligned => f.write_str("a section is not aligned"),
            Self::Incomplete => f.write_str("a section ends within a record or a counter"),
            Self::Counters(index) => {
                write!(f, "the counters of record {index} are not in the section")
            }
            Self::Bits(index) => write!(f, "the bits of record {index} are not in the section"),
            Self::Values(index) => write!(f, "record {index} has values"),
            Self::TooLarge => f.write_str("too many counters"),
            Self::NoRoom => f.write_str("the buffer is too small"),
        }
    }
}

/// Fields of a function's record that a profile needs.
pub(super) struct ProfileRecord {
    /// Hashes of the name and of the function.
    pub(super) hashes: [u64; 2],
    /// Distance of the counters from the record.
    pub(super) counters: u64,
    /// Distance of the bits from the record.
    pub(super) bits: u64,
    pub(super) n_counters: u32,
    pub(super) n_bits: u32,
    has_values: bool,
}

impl ProfileRecord {
    pub(super) fn new(bytes: &[u8; RECORD]) -> Self {
        let mut words = [0; RECORD / 4];
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(4)) {
            *word = u32::from_le_bytes(bytes.try_into().unwrap_or_default());
        }
        let long = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let [n0, n1, h0, h1, c0, c1, b0, b1, _, _, _, _, n_counters, kinds_0_1, kind_2, n_bits] =
            words;
        Self {
            hashes: [long(n0, n1), long(h0, h1)],
            counters: long(c0, c1),
            bits: long(b0, b1),
            n_counters,
            n_bits,
            // The upper half is padding.
            has_values: kinds_0_1 != 0 || kind_2 & 0xffff != 0,
        }
    }

    /// Checks the record with an index and the address `at`.
    fn check(&self, index: usize, at: u64, sections: &Sections) -> Result<(), ProfileRefusal> {
        let within = |section: &Section, distance: u64, len: u64| {
            let start = at.wrapping_add(distance).wrapping_sub(section.address);
            let end = start.checked_add(len);
            let section = u64::try_from(section.len).unwrap_or(u64::MAX);
            end.is_some_and(|end| end <= section).then_some(start)
        };
        if self.has_values {
            return Err(ProfileRefusal::Values(index));
        }
        let len = u64::from(self.n_counters).saturating_mul(8);
        match within(&sections.counters, self.counters, len) {
            Some(start) if start % 8 == 0 => (),
            _ => return Err(ProfileRefusal::Counters(index)),
        }
        let bits = within(&sections.bits, self.bits, u64::from(self.n_bits));
        if self.n_bits != 0 && bits.is_none() {
            return Err(ProfileRefusal::Bits(index));
        }
        Ok(())
    }
}

/// Checked sections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    version: u64,
    sections: Sections,
    len: usize,
}

impl Profile {
    /// Checks the sections of an image; `version` is the value of its `__llvm_profile_raw_version`.
    ///
    /// # Errors
    ///
    /// The reason for a refusal: none of the data is reliable then.
    pub fn check<M: Memory>(
        memory: &M,
        version: u64,
        sections: Sections,
    ) -> Result<Self, ProfileRefusal> {
        if version & !VARIANTS != PROFILE_VERSION || version & VARIANTS & !KNOWN_VARIANTS != 0 {
            return Err(ProfileRefusal::Version(version));
        }
        let Sections {
            data,
            counters,
            bits,
            names,
        } = sections;
        let mut len = HEADER_WORDS.saturating_mul(8);
        for section in [data, counters, bits, names] {
            let bytes = u64::try_from(section.len).unwrap_or(u64::MAX);
            if section.len != 0 && !memory.is_readable(section.address, bytes) {
                return Err(ProfileRefusal::Unreadable);
            }
            len = len
                .saturating_add(section.len)
                .saturating_add(padding(section.len));
        }
        if len > MAX_PROFILE {
            return Err(ProfileRefusal::TooLarge);
        }
        if data.address % 8 != 0 || counters.address % 8 != 0 {
            return Err(ProfileRefusal::Misaligned);
        }
        if data.len % RECORD != 0 || counters.len % 8 != 0 {
            return Err(ProfileRefusal::Incomplete);
        }
        let mut at = data.address;
        for index in 0..data.len / RECORD {
            let mut bytes = [0; RECORD];
            memory.copy(at, &mut bytes)?;
            ProfileRecord::new(&bytes).check(index, at, &sections)?;
            // The memory was readable up to its end.
            at = at.wrapping_add(64);
        }
        Ok(Self {
            version,
            sections,
            len,
        })
    }

    /// Returns the number of bytes of the profile, which does not depend on the counters.
    pub fn file_len(&self) -> usize {
        self.len
    }

    /// Returns the number of counters.
    pub fn counters(&self) -> usize {
        self.sections.counters.len / 8
    }

    /// Returns the sections that a reset of the profile zeroes: the counters and the bits.
    pub fn resets(&self) -> [Section; 2] {
        [self.sections.counters, self.sections.bits]
    }

    /// Writes the profile to the start of `to`, which needs [`Self::file_len`] bytes. Returns its
    /// length.
    pub fn write<M: Memory>(&self, memory: &M, to: &mut [u8]) -> Result<usize, ProfileRefusal> {
        let Sections {
            data,
            counters,
            bits,
            names,
        } = self.sections;
        let mut to = Output::new(to);
        let [n_data, n_counters, n_bits, n_names, after_counters, after_bits] = [
            data.len / RECORD,
            counters.len / 8,
            bits.len,
            names.len,
            padding(counters.len),
            padding(bits.len),
        ]
        .map(|n| u64::try_from(n).unwrap_or(u64::MAX));
        let header: [u64; HEADER_WORDS] = [
            MAGIC,
            self.version,
            0,
            n_data,
            0,
            n_counters,
            after_counters,
            n_bits,
            after_bits,
            n_names,
            distance(&data, &counters),
            distance(&data, &bits),
            0,
            0,
            0,
            LAST_KIND,
        ];
        for word in header {
            to.u64(word)?;
        }
        copy(memory, &data, &mut to)?
            .chunks_exact_mut(RECORD)
            .flat_map(|record| record.get_mut(32..48))
            .for_each(|addresses| addresses.fill(0));
        for section in [counters, bits, names] {
            copy(memory, &section, &mut to)?;
            to.zeros(padding(section.len))?;
        }
        Ok(to.len())
    }
}

fn copy<'o, M: Memory>(
    memory: &M,
    section: &Section,
    to: &'o mut Output<'_>,
) -> Result<&'o mut [u8], ProfileRefusal> {
    let place = to.take(section.len)?;
    if section.len != 0 {
        memory.copy(section.address, place)?;
    }
    Ok(place)
}

/// Returns the distance of a section from the records; 0 for an empty section.
fn distance(data: &Section, section: &Section) -> u64 {
    match section.len {
        0 => 0,
        _ => section.address.wrapping_sub(data.address),
    }
}

/// Returns the number of bytes that are missing to a multiple of 8.
pub(super) fn padding(len: usize) -> usize {
    len.wrapping_neg() % 8
}
