// SPDX-License-Identifier: GPL-2.0

//! What a `.gcno` file says of the counters of an object.
//!
//! The file has a record for each function, and after it some of the function's graph. The compiler counts those arcs of
//! the graph that are not on its spanning tree; the others follow from them. Everything else in the file is for gcov.

#![deny(unsafe_code)]

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use thiserror::Error;

use super::version::Compiler;
use super::version::Layout;
use super::version::Version;
use crate::file::read_regular;

const MAGIC: u32 = u32::from_be_bytes(*b"gcno");
const FUNCTION: u32 = 0x0100_0000;
const ARCS: u32 = 0x0143_0000;
/// The flag of an arc without a counter.
const ON_TREE: u32 = 1;
/// The most bytes of a file; the kernel's have less than a megabyte.
const MAX_LEN: u64 = 1 << 28;

/// Why a `.gcno` file cannot be used.
#[derive(Debug, Error)]
pub enum NotesError {
    /// It cannot be read.
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
    /// It is something else.
    #[error("is not a .gcno file")]
    Magic,
    /// The compiler ran for a machine of the other byte order.
    #[error("is of the other byte order")]
    ByteOrder,
    /// Of an older compiler, or of none.
    #[error("is of the version {0}, which is not known: only GCC 8 and later, and LLVM are")]
    Version(Version),
    /// It ends within a record, or a record contradicts itself.
    #[error("is damaged at byte {0}")]
    Damaged(usize),
}

/// A function that has counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Function {
    /// Identifies it among the functions of the object.
    pub ident: u32,
    /// The checksum of its name and lines.
    pub lines: u32,
    /// The checksum of its graph.
    pub graph: u32,
    /// How many arcs are counted.
    pub counters: usize,
}

/// The notes of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notes {
    /// The word that files of the object have.
    pub version: Version,
    /// Who wrote it.
    pub compiler: Compiler,
    /// How files of the object are laid out.
    pub layout: Layout,
    /// Differs between builds.
    pub stamp: u32,
    /// Where the compiler ran.
    pub directory: Option<OsString>,
    /// In the order of the file, which is that of the object.
    pub functions: Vec<Function>,
}

struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], NotesError> {
        let end = self.at.checked_add(len);
        let taken = end.and_then(|end| self.bytes.get(self.at..end));
        let taken = taken.ok_or(NotesError::Damaged(self.at))?;
        self.at += len;
        Ok(taken)
    }

    fn word(&mut self) -> Result<u32, NotesError> {
        let at = self.at;
        let word = self.take(4)?;
        let word = word.try_into().map_err(|_| NotesError::Damaged(at))?;
        Ok(u32::from_ne_bytes(word))
    }

    /// A length in the file's unit, in bytes.
    fn length(&mut self, unit: u32) -> Result<usize, NotesError> {
        let at = self.at;
        let bytes = self.word()?.checked_mul(unit);
        let bytes = bytes.and_then(|bytes| usize::try_from(bytes).ok());
        bytes.ok_or(NotesError::Damaged(at))
    }

    /// A string without the NULs at its end.
    fn string(&mut self, unit: u32) -> Result<&'a [u8], NotesError> {
        let len = self.length(unit)?;
        let text = self.take(len)?;
        let end = text.iter().position(|byte| *byte == 0);
        Ok(text.get(..end.unwrap_or(text.len())).unwrap_or_default())
    }
}

/// The counted arcs of a record.
fn counted_arcs(mut arcs: Cursor<'_>) -> Result<usize, NotesError> {
    // The block that they come from.
    arcs.word()?;
    let mut counted: usize = 0;
    while arcs.at < arcs.bytes.len() {
        let _to = arcs.word()?;
        if arcs.word()? & ON_TREE == 0 {
            counted += 1;
        }
    }
    Ok(counted)
}

impl Notes {
    /// Understands the contents of a `.gcno` file.
    pub fn parse(bytes: &[u8]) -> Result<Self, NotesError> {
        let mut cursor = Cursor { bytes, at: 0 };
        match cursor.word() {
            Ok(MAGIC) => (),
            Ok(word) if word.swap_bytes() == MAGIC => return Err(NotesError::ByteOrder),
            _ => return Err(NotesError::Magic),
        }
        let version = Version::new(cursor.word()?);
        let known = version.compiler();
        let (mut compiler, layout) = known.ok_or(NotesError::Version(version))?;
        let stamp = cursor.word()?;
        if layout.checksum {
            cursor.word()?;
        }
        let directory = layout.directory.then(|| cursor.string(layout.unit));
        let directory = directory.transpose()?;
        let directory = directory.map(|directory| OsString::from_vec(directory.to_owned()));
        if layout.unexecuted {
            cursor.word()?;
        }
        let mut functions: Vec<Function> = Vec::new();
        while cursor.at < bytes.len() {
            let start = cursor.at;
            let tag = cursor.word()?;
            let len = cursor.length(layout.unit)?;
            // LLVM marks the end; GCC 11.1, of the same version, does not.
            if tag == 0 {
                compiler = Compiler::Llvm;
                break;
            }
            let damaged = |_| NotesError::Damaged(start);
            let mut record = Cursor {
                bytes: cursor.take(len)?,
                at: 0,
            };
            match tag {
                FUNCTION => functions.push(Function {
                    ident: record.word().map_err(damaged)?,
                    lines: record.word().map_err(damaged)?,
                    graph: record.word().map_err(damaged)?,
                    counters: 0,
                }),
                ARCS => {
                    let counted = counted_arcs(record).map_err(damaged)?;
                    let function = functions.last_mut().ok_or(NotesError::Damaged(start))?;
                    function.counters += counted;
                }
                _ => (),
            }
        }
        Ok(Self {
            version,
            compiler,
            layout,
            stamp,
            directory,
            functions,
        })
    }

    /// Reads a `.gcno` file.
    pub fn read(path: &Path) -> Result<Self, NotesError> {
        Self::parse(&read_regular(path, MAX_LEN)?)
    }

    /// How many counters the object has.
    pub fn counters(&self) -> usize {
        self.functions
            .iter()
            .map(|function| function.counters)
            .sum()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A file with a function for each number, which has that many counted arcs and one that is not.
    pub fn file(version: &[u8; 4], counters: &[u32]) -> Vec<u8> {
        let version = u32::from_be_bytes(*version);
        let (_, layout) = Version::new(version).compiler().unwrap();
        let mut words = vec![MAGIC, version, 0x1234];
        if layout.checksum {
            words.push(0);
        }
        let mut words: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let mut add = |numbers: &[u32]| {
            for number in numbers {
                words.extend(number.to_ne_bytes());
            }
        };
        if layout.directory {
            add(&[4 / layout.unit, u32::from_ne_bytes(*b"/b\0\0")]);
        }
        if layout.unexecuted {
            add(&[1]);
        }
        for (function, counters) in (0..).zip(counters) {
            add(&[FUNCTION, 16 / layout.unit, function, 7, 8, 0]);
            add(&[0x0141_0000, 4 / layout.unit, 2]);
            add(&[ARCS, (4 + 8 * (counters + 1)) / layout.unit, 0]);
            add(&[1, 3]);
            for _ in 0..*counters {
                add(&[1, 4]);
            }
        }
        words
    }

    #[test]
    fn versions() {
        for version in [b"B22*", b"B13*", b"A93*", b"A83*", b"408*"] {
            let notes = Notes::parse(&file(version, &[2, 0, 5])).unwrap();
            let counters: Vec<_> = notes.functions.iter().map(|f| f.counters).collect();
            assert_eq!(counters, [2, 0, 5]);
            assert_eq!(notes.counters(), 7);
            assert_eq!(notes.stamp, 0x1234);
            let directory = version[0] == b'B' || version == b"A93*";
            assert_eq!(notes.directory, directory.then(|| "/b".into()));
            let second = notes.functions[1];
            assert_eq!((second.ident, second.lines, second.graph), (1, 7, 8));
        }
    }

    #[test]
    fn the_end_of_llvm() {
        let mut bytes = file(b"B11*", &[1]);
        assert_eq!(Notes::parse(&bytes).unwrap().compiler, Compiler::Gcc(11));
        bytes.extend([0; 8]);
        assert_eq!(Notes::parse(&bytes).unwrap().compiler, Compiler::Llvm);
    }

    #[test]
    fn refusals() {
        let of = |bytes: &[u8]| Notes::parse(bytes).unwrap_err().to_string();
        assert_eq!(of(b""), "is not a .gcno file");
        assert_eq!(of(b"\x7fELF, or so"), "is not a .gcno file");
        let mut swapped = file(b"B22*", &[1]);
        swapped[..4].reverse();
        assert_eq!(of(&swapped), "is of the other byte order");
        let mut old = file(b"A83*", &[1]);
        old[4..8].copy_from_slice(&u32::from_be_bytes(*b"A74*").to_ne_bytes());
        assert!(of(&old).starts_with("is of the version A74*, which is not known"));
    }

    #[test]
    fn truncated() {
        for version in [b"B22*", b"B13*", b"408*"] {
            let whole = file(version, &[2, 5]);
            let all = Notes::parse(&whole).unwrap();
            for len in 0..whole.len() {
                if let Ok(notes) = Notes::parse(&whole[..len]) {
                    assert_ne!(notes, all, "{len}");
                }
            }
        }
    }

    proptest! {
        #[test]
        fn anything(mut bytes in prop::collection::vec(any::<u8>(), 8..200), at in 8usize..80, byte: u8) {
            let mut file = file(b"B22*", &[1, 2]);
            file[at] = byte;
            let _ = Notes::parse(&file);
            bytes.splice(..8, file[..8].iter().copied());
            let _ = Notes::parse(&bytes);
        }
    }
}
