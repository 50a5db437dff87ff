// SPDX-License-Identifier: GPL-2.0

//! Reads `gcda` files of every known version, of GCC and of LLVM.

use super::format::FUNCTION_WORDS;
use super::format::MAGIC;
use super::format::SUMMARY_WORDS;
use super::format::TAG_FUNCTION;
use super::format::TAG_OBJECT_SUMMARY;
use super::format::TAG_PROGRAM_SUMMARY;
use super::record::take_record;
use super::record::take_word;
use super::record::Records;
use super::version::Format;
use super::version::Version;
use core::fmt;

/// Reason why bytes are not a `gcda` file, with the offset of the faulty record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// Not a `gcda` file.
    Magic,
    /// The numbers of the file are big-endian.
    BigEndian,
    /// The version is unknown.
    Version(Version),
    /// The file ends within the record.
    Truncated(usize),
    /// The length is invalid for the record.
    Length(usize),
    /// The record is unknown, or in the wrong place.
    Tag(usize),
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Magic => f.write_str("not a gcda file"),
            Self::BigEndian => f.write_str("the file is big-endian"),
            Self::Version(version) => write!(f, "unknown version {version}"),
            Self::Truncated(at) => write!(f, "the file ends within the record at {at}"),
            Self::Length(at) => write!(f, "the record at {at} has a wrong length"),
            Self::Tag(at) => write!(f, "unexpected record at {at}"),
        }
    }
}

/// Summary of runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Number of runs.
    pub runs: u32,
    /// Sum of the largest counter of each run.
    pub sum_max: u32,
}

/// A `gcda` file that has been checked completely.
#[derive(Clone, Copy, Debug)]
pub struct Gcda<'b> {
    version: Version,
    format: &'static Format,
    stamp: u32,
    checksum: u32,
    summary: Option<Summary>,
    /// The file from the first record on.
    records: &'b [u8],
    /// Number of zeros at the end.
    end: usize,
}

impl<'b> Gcda<'b> {
    /// Checks a file.
    pub fn parse(bytes: &'b [u8]) -> Result<Self, Malformed> {
        let mut header = bytes;
        let mut word = || {
            let word = take_word(&mut header);
            word.ok_or(Malformed::Truncated(0))
        };
        match word().map_err(|_| Malformed::Magic)? {
            MAGIC => (),
            magic if magic.swap_bytes() == MAGIC => return Err(Malformed::BigEndian),
            _ => return Err(Malformed::Magic),
        }
        let version = Version::new(word()?);
        let format = version.format().ok_or(Malformed::Version(version))?;
        let stamp = word()?;
        let checksum = match format.checksum {
            true => word()?,
            false => 0,
        };
        let mut file = Self {
            version,
            format,
            stamp,
            checksum,
            summary: None,
            records: header,
            end: 0,
        };
        file.check(bytes.len().saturating_sub(header.len()))?;
        Ok(file)
    }

    /// Checks the records, and finds the summary and the end.
    fn check(&mut self, header: usize) -> Result<(), Malformed> {
        let mut rest = self.records;
        // Kinds of counters that may follow: of a function that is present.
        let mut allowed = 0..0;
        while !rest.is_empty() {
            let left = rest.len();
            let at = header.saturating_add(self.records.len().saturating_sub(left));
            let raw = take_record(self.format, &mut rest);
            let raw = raw.ok_or(Malformed::Truncated(at))?;
            match raw.tag {
                0 => {
                    let records = self.records.len().saturating_sub(left);
                    let (records, end) = self.records.split_at_checked(records).unwrap_or_default();
                    if end.iter().any(|byte| *byte != 0) {
                        return Err(Malformed::Tag(at));
                    }
                    self.records = records;
                    self.end = end.len();
                    return Ok(());
                }
                TAG_FUNCTION => {
                    let kinds = u8::try_from(self.format.kinds.len()).unwrap_or(u8::MAX);
                    allowed = match raw.words() {
                        Some(0) => 0..0,
                        Some(FUNCTION_WORDS) => 0..kinds,
                        _ => return Err(Malformed::Length(at)),
                    };
                }
                TAG_OBJECT_SUMMARY | TAG_PROGRAM_SUMMARY => {
                    allowed = 0..0;
                    let words = raw.words().ok_or(Malformed::Length(at))?;
                    let mut data = raw.data.unwrap_or_default();
                    if raw.tag == TAG_OBJECT_SUMMARY && words == SUMMARY_WORDS {
                        self.summary = Some(Summary {
                            runs: take_word(&mut data).unwrap_or(0),
                            sum_max: take_word(&mut data).unwrap_or(0),
                        });
                    }
                }
                _ => {
                    let counters = raw.counters(self.format).ok_or(Malformed::Tag(at))?;
                    if !allowed.contains(&counters.index) {
                        return Err(Malformed::Tag(at));
                    }
                    allowed.start = counters.index.saturating_add(1);
                    if !raw.fits(self.format, &counters) {
                        return Err(Malformed::Length(at));
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns the compiler's version.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Returns the layout of the file.
    pub fn format(&self) -> &'static Format {
        self.format
    }

    /// Returns the stamp, which identifies the notes (`.gcno`) of the file.
    pub fn stamp(&self) -> u32 {
        self.stamp
    }

    /// Returns the checksum of the object; 0 before GCC 12, which has none.
    pub fn checksum(&self) -> u32 {
        self.checksum
    }

    /// Returns the summary of runs, since GCC 9.
    pub fn summary(&self) -> Option<Summary> {
        self.summary
    }

    /// Returns the number of zeros at its end: 4 bytes of GCC, 8 of LLVM.
    pub(super) fn end(&self) -> usize {
        self.end
    }

    /// Returns the records of functions.
    pub fn functions(&self) -> Records<'b> {
        Records::new(self.format, self.records)
    }
}
