// SPDX-License-Identifier: GPL-2.0

//! Records of a `gcda` file.

use super::format::counters_index;
use super::format::counters_len;
use super::format::value;
use super::format::COUNTER;
use super::format::TAG_FUNCTION;
use super::topn::are_lists;
use super::version::Format;
use super::version::Kind;

/// Record of a function.
#[derive(Clone, Copy, Debug)]
pub struct Record<'b> {
    /// Identity of the function. `None` if the object that wrote the file did not have it.
    pub identity: Option<Identity>,
    format: &'static Format,
    sets: &'b [u8],
}

/// Identity of a function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Number in the object.
    pub ident: u32,
    /// Checksum of its name and lines.
    pub lineno_checksum: u32,
    /// Checksum of its control flow.
    pub cfg_checksum: u32,
}

/// Counters of a function.
#[derive(Clone, Copy, Debug)]
pub struct Counters<'b> {
    /// Index of their kind.
    pub index: u8,
    /// Kind, which determines how they are merged.
    pub kind: Kind,
    /// Number of counters.
    pub count: u32,
    /// Bytes of the counters. `None` if all are zero, and left out.
    pub bytes: Option<&'b [u8]>,
}

impl<'b> Counters<'b> {
    /// Returns the values.
    pub fn values(&self) -> impl Iterator<Item = u64> + 'b {
        let zeros = match self.bytes {
            Some(_) => 0,
            None => usize::try_from(self.count).unwrap_or(usize::MAX),
        };
        let bytes = self.bytes.unwrap_or_default();
        let words = bytes.chunks_exact(COUNTER).map(value);
        words.chain(core::iter::repeat_n(0, zeros))
    }
}

impl<'b> Record<'b> {
    /// Returns the counters of the function, by kind.
    pub fn sets(&self) -> Sets<'b> {
        Sets {
            format: self.format,
            rest: self.sets,
        }
    }
}

/// Iterator over the functions of a [`Gcda`](super::Gcda).
#[derive(Clone, Debug)]
pub struct Records<'b> {
    format: &'static Format,
    rest: &'b [u8],
}

impl<'b> Records<'b> {
    /// Makes an iterator over checked records.
    pub(super) fn new(format: &'static Format, records: &'b [u8]) -> Self {
        Self {
            format,
            rest: records,
        }
    }
}

impl<'b> Iterator for Records<'b> {
    type Item = Record<'b>;

    fn next(&mut self) -> Option<Record<'b>> {
        // Summaries are skipped.
        let data = loop {
            let raw = take_record(self.format, &mut self.rest)?;
            if raw.tag == TAG_FUNCTION {
                break raw.data;
            }
        };
        let mut data = data.unwrap_or_default();
        let mut words = || take_word(&mut data);
        let identity = match (words(), words(), words()) {
            (Some(ident), Some(lineno_checksum), Some(cfg_checksum)) => Some(Identity {
                ident,
                lineno_checksum,
                cfg_checksum,
            }),
            _ => None,
        };
        let start = self.rest;
        loop {
            let before = self.rest;
            match take_record(self.format, &mut self.rest) {
                Some(raw) if raw.counters(self.format).is_some() => (),
                _ => {
                    self.rest = before;
                    break;
                }
            }
        }
        let len = start.len().saturating_sub(self.rest.len());
        Some(Record {
            identity,
            format: self.format,
            sets: start.get(..len).unwrap_or_default(),
        })
    }
}

/// Iterator over the counters of a [`Record`].
#[derive(Clone, Debug)]
pub struct Sets<'b> {
    format: &'static Format,
    rest: &'b [u8],
}

impl<'b> Iterator for Sets<'b> {
    type Item = Counters<'b>;

    fn next(&mut self) -> Option<Counters<'b>> {
        take_record(self.format, &mut self.rest)?.counters(self.format)
    }
}

/// A record as in the file.
pub(super) struct Raw<'b> {
    pub(super) tag: u32,
    /// Bytes.
    len: u32,
    /// `None` for a negative length: all counters are zero, and left out.
    pub(super) data: Option<&'b [u8]>,
}

impl<'b> Raw<'b> {
    /// Returns the number of words.
    pub(super) fn words(&self) -> Option<u32> {
        self.data.map(|_| self.len / 4)
    }

    /// Returns the counters, if this is a record of counters of the format.
    pub(super) fn counters(&self, format: &Format) -> Option<Counters<'b>> {
        let index = counters_index(self.tag)?;
        let kind = format.kinds.get(usize::from(index))?;
        Some(Counters {
            index,
            kind: *kind,
            count: self.len / 8,
            bytes: self.data,
        })
    }

    /// Returns true if the length is valid for such counters, and can be written again. The
    /// smallest negative length is not valid.
    pub(super) fn fits(&self, format: &Format, counters: &Counters<'_>) -> bool {
        counters_len(format, counters.count).is_some()
            && match (counters.kind, self.len % 8) {
                (Kind::TopList, 0) => counters.bytes.is_some_and(are_lists),
                (kind, 0) => matches!(counters.count % kind.group(), 0),
                _ => false,
            }
    }
}

/// Takes a number from the start of `bytes`.
pub(super) fn take_word(bytes: &mut &[u8]) -> Option<u32> {
    let (word, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(u32::from_le_bytes(*word))
}

/// Takes a record from the start of `bytes`. Returns `None` if it does not fit. A tag of 0 has no
/// length.
pub(super) fn take_record<'b>(format: &Format, bytes: &mut &'b [u8]) -> Option<Raw<'b>> {
    let mut rest = *bytes;
    let tag = take_word(&mut rest)?;
    if tag == 0 {
        *bytes = rest;
        return Some(Raw {
            tag,
            len: 0,
            data: None,
        });
    }
    let len = take_word(&mut rest)?;
    // A negative length stands for counters that are all zero, and left out.
    let absent = format.omits_zeros && i32::try_from(len).is_err() && counters_index(tag).is_some();
    let units = if absent { len.wrapping_neg() } else { len };
    let len = format.unit.words(units)?.checked_mul(4)?;
    let mut data = None;
    if !absent {
        let (bytes, after) = rest.split_at_checked(usize::try_from(len).ok()?)?;
        data = Some(bytes);
        rest = after;
    }
    *bytes = rest;
    Some(Raw { tag, len, data })
}
