// SPDX-License-Identifier: GPL-2.0

//! `.gcda` files: the counters of an object, as its compiler's gcov reads them.

#![deny(unsafe_code)]

use thiserror::Error;

use super::notes::Notes;

const MAGIC: u32 = u32::from_be_bytes(*b"gcda");
const FUNCTION: u32 = 0x0100_0000;
const ARC_COUNTERS: u32 = 0x01a1_0000;
/// Words of a function's record: its ident and two checksums.
const FUNCTION_BYTES: usize = 12;

/// The counters are not those that the notes describe.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum DataError {
    /// Another number of counters.
    #[error(
        "{counters} counters, but its .gcno file describes {described} in {functions} functions: it is of another build, \
         or the compiler was told to count more than arcs"
    )]
    Count {
        /// How many there are.
        counters: usize,
        /// How many there should be.
        described: usize,
        /// In so many functions.
        functions: usize,
    },
    /// A function has more than a file can have.
    #[error("too many counters for a .gcda file")]
    TooMany,
}

struct Writer {
    bytes: Vec<u8>,
    unit: u32,
}

impl Writer {
    fn word(&mut self, word: u32) {
        self.bytes.extend(word.to_ne_bytes());
    }

    /// The tag of a record, and its length.
    fn record(&mut self, tag: u32, bytes: usize) -> Result<(), DataError> {
        let bytes = u32::try_from(bytes).map_err(|_| DataError::TooMany)?;
        // A negative length stands for counters that are all 0.
        let len = bytes.checked_div(self.unit);
        let len = len.filter(|len| i32::try_from(*len).is_ok());
        self.word(tag);
        self.word(len.ok_or(DataError::TooMany)?);
        Ok(())
    }

    /// The lower half comes first on any machine.
    fn counter(&mut self, counter: u64) {
        let [a, b, c, d, e, f, g, h] = counter.to_le_bytes();
        self.word(u32::from_le_bytes([a, b, c, d]));
        self.word(u32::from_le_bytes([e, f, g, h]));
    }
}

/// Makes the `.gcda` file of the object that the notes are of.
pub fn gcda(notes: &Notes, counters: &[u64]) -> Result<Vec<u8>, DataError> {
    let described = notes.counters();
    if counters.len() != described {
        return Err(DataError::Count {
            counters: counters.len(),
            described,
            functions: notes.functions.len(),
        });
    }
    let mut to = Writer {
        bytes: Vec::with_capacity(counters.len().saturating_mul(8)),
        unit: notes.layout.unit,
    };
    to.word(MAGIC);
    to.word(notes.version.word());
    to.word(notes.stamp);
    if notes.layout.checksum {
        // Of the whole object. The notes do not have it, and gcov does not look at it.
        to.word(0);
    }
    let mut rest = counters;
    for function in &notes.functions {
        let (own, others) = rest.split_at_checked(function.counters).unwrap_or_default();
        rest = others;
        // The compilers write nothing of a function that counts nothing.
        if own.is_empty() {
            continue;
        }
        to.record(FUNCTION, FUNCTION_BYTES)?;
        to.word(function.ident);
        to.word(function.lines);
        to.word(function.graph);
        to.record(ARC_COUNTERS, own.len().saturating_mul(8))?;
        for counter in own {
            to.counter(*counter);
        }
    }
    Ok(to.bytes)
}

/// The first bytes of a `.gcda` file, which differ between builds: the version and the stamp.
pub fn start(notes: &Notes) -> Vec<u8> {
    let words = [MAGIC, notes.version.word(), notes.stamp];
    words.into_iter().flat_map(u32::to_ne_bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::super::notes::tests::file;
    use super::*;

    fn words(bytes: &[u8]) -> Vec<u32> {
        assert_eq!(bytes.len() % 4, 0);
        let words = bytes.chunks_exact(4).map(|word| word.try_into().unwrap());
        words.map(u32::from_ne_bytes).collect()
    }

    #[test]
    fn of_gcc_12() {
        let notes = Notes::parse(&file(b"B22*", &[2, 0, 1])).unwrap();
        let bytes = gcda(&notes, &[1, 0x2_0000_0003, 4]).unwrap();
        let version = u32::from_be_bytes(*b"B22*");
        let expected: [&[u32]; 3] = [
            &[MAGIC, version, 0x1234, 0],
            &[FUNCTION, 12, 0, 7, 8, ARC_COUNTERS, 16, 1, 0, 3, 2],
            &[FUNCTION, 12, 2, 7, 8, ARC_COUNTERS, 8, 4, 0],
        ];
        assert_eq!(words(&bytes), expected.concat());
        assert_eq!(start(&notes), bytes[..12]);
    }

    #[test]
    fn with_lengths_in_words() {
        for version in [b"B13*", b"408*"] {
            let notes = Notes::parse(&file(version, &[2])).unwrap();
            let bytes = gcda(&notes, &[1, 2]).unwrap();
            let version = u32::from_be_bytes(*version);
            let expected: [&[u32]; 2] = [
                &[MAGIC, version, 0x1234],
                &[FUNCTION, 3, 0, 7, 8, ARC_COUNTERS, 4, 1, 0, 2, 0],
            ];
            assert_eq!(words(&bytes), expected.concat());
            assert_eq!(start(&notes), bytes[..12]);
        }
    }

    #[test]
    fn another_number_of_counters() {
        let notes = Notes::parse(&file(b"B22*", &[2, 1])).unwrap();
        for counters in [&[][..], &[1, 2], &[1, 2, 3, 4]] {
            let error = gcda(&notes, counters).unwrap_err();
            let expected = DataError::Count {
                counters: counters.len(),
                described: 3,
                functions: 2,
            };
            assert_eq!(error, expected);
        }
    }
}
