// SPDX-License-Identifier: GPL-2.0

//! The one file that has the counters of all objects.
//!
//! For each object: the length of its name, the name, zeros up to a multiple of 8 bytes, the number of counters, and the
//! counters. Numbers have 8 bytes in the machine's order. The name is that of the object's `.gcda` file. Nothing says
//! how many objects there are: the file ends after the last one.

#![deny(unsafe_code)]

use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::io::Read;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use thiserror::Error;

/// The most bytes of a name: the kernel's `PATH_MAX`.
pub const MAX_NAME: u64 = 4096;

/// Bytes that are read at once.
const CHUNK: usize = 64 << 10;

/// The counters of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// Its `.gcda` file, as the compiler has it.
    pub name: OsString,
    /// In the order of its functions.
    pub counters: Vec<u64>,
}

impl Object {
    /// Its name, as a path.
    pub fn path(&self) -> &Path {
        Path::new(&self.name)
    }
}

/// Errors in a dump.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum Malformation {
    /// The file ends within something.
    #[error("the file ends within {0}")]
    Truncated(Part),
    /// No name is that long.
    #[error("a file name of {0} bytes")]
    NameLength(u64),
    /// The numbers are in the byte order of another machine.
    #[error("it is of a machine with the other byte order")]
    ByteOrder,
    /// A name with a NUL in it.
    #[error("a file name with a NUL")]
    Nul,
    /// Bytes after the name are not zero.
    #[error("a file name that is not padded with zeros")]
    Padding,
    /// More counters than there can be.
    #[error("{0} counters")]
    Counters(u64),
}

/// A part of an object in a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// How long the name is.
    NameLength,
    /// The name and its padding.
    Name,
    /// How many counters there are.
    Count,
    /// The counters.
    Counters,
}

impl std::fmt::Display for Part {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::NameLength => "the length of a file name",
            Self::Name => "a file name",
            Self::Count => "a number of counters",
            Self::Counters => "the counters",
        })
    }
}

/// Why a dump cannot be read.
#[derive(Debug, Error)]
pub enum DumpError {
    /// It is not a dump.
    #[error("object {object} (at byte {offset}): {what}")]
    Malformed {
        /// The object, from 1.
        object: usize,
        /// Where it begins.
        offset: u64,
        /// Error in the dump.
        what: Malformation,
    },
    /// The system refuses to read it.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Reading fails because of the file or of the system.
enum Failure {
    Malformed(Malformation),
    Io(io::Error),
}

impl From<Malformation> for Failure {
    fn from(what: Malformation) -> Self {
        Self::Malformed(what)
    }
}

struct Reader<R> {
    from: R,
    offset: u64,
    chunk: Vec<u8>,
}

impl<R: Read> Reader<R> {
    /// Reads as many bytes as the file has, up to those of `to`.
    fn fill(&mut self, to: &mut [u8]) -> Result<usize, Failure> {
        let mut filled = 0;
        while let Some(rest) = to.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match self.from.read(rest) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
                Err(error) => return Err(Failure::Io(error)),
            }
        }
        self.offset = self
            .offset
            .saturating_add(u64::try_from(filled).unwrap_or(u64::MAX));
        Ok(filled)
    }

    fn exactly(&mut self, to: &mut [u8], part: Part) -> Result<(), Failure> {
        if self.fill(to)? == to.len() {
            Ok(())
        } else {
            Err(Malformation::Truncated(part).into())
        }
    }

    fn number(&mut self, part: Part) -> Result<u64, Failure> {
        let mut bytes = [0; 8];
        self.exactly(&mut bytes, part)?;
        Ok(u64::from_ne_bytes(bytes))
    }

    /// The length of the next name, if there is another object.
    fn name_length(&mut self) -> Result<Option<usize>, Failure> {
        let mut bytes = [0; 8];
        match self.fill(&mut bytes)? {
            0 => return Ok(None),
            8 => (),
            _ => return Err(Malformation::Truncated(Part::NameLength).into()),
        }
        let len = u64::from_ne_bytes(bytes);
        if (1..=MAX_NAME).contains(&len) {
            return Ok(usize::try_from(len).ok());
        }
        if (1..=MAX_NAME).contains(&len.swap_bytes()) {
            return Err(Malformation::ByteOrder.into());
        }
        Err(Malformation::NameLength(len).into())
    }

    fn name(&mut self, len: usize) -> Result<OsString, Failure> {
        let mut bytes = vec![0; len.next_multiple_of(8)];
        self.exactly(&mut bytes, Part::Name)?;
        let padding = bytes.split_off(len);
        if bytes.contains(&0) {
            return Err(Malformation::Nul.into());
        }
        if padding.iter().any(|byte| *byte != 0) {
            return Err(Malformation::Padding.into());
        }
        Ok(OsString::from_vec(bytes))
    }

    /// Takes no more memory than the file has bytes, whatever it claims.
    fn counters(&mut self, count: u64) -> Result<Vec<u64>, Failure> {
        let bytes = count.checked_mul(8).filter(|bytes| *bytes < 1 << 62);
        let mut left = bytes.ok_or(Malformation::Counters(count))?;
        let mut counters = Vec::new();
        let mut chunk = std::mem::take(&mut self.chunk);
        let most = usize::try_from(left).map_or(CHUNK, |left| left.min(CHUNK));
        if chunk.len() < most {
            chunk.resize(most, 0);
        }
        while left > 0 {
            let len = usize::try_from(left).map_or(CHUNK, |left| left.min(CHUNK));
            let piece = chunk.get_mut(..len).unwrap_or_default();
            self.exactly(piece, Part::Counters)?;
            let numbers = piece
                .chunks_exact(8)
                .filter_map(|number| number.try_into().ok());
            counters.extend(numbers.map(u64::from_ne_bytes));
            left = left.saturating_sub(u64::try_from(len).unwrap_or(left));
        }
        self.chunk = chunk;
        Ok(counters)
    }

    fn object(&mut self) -> Result<Option<Object>, Failure> {
        let Some(len) = self.name_length()? else {
            return Ok(None);
        };
        let name = self.name(len)?;
        let count = self.number(Part::Count)?;
        let counters = self.counters(count)?;
        Ok(Some(Object { name, counters }))
    }
}

/// Reads a dump up to its end.
pub fn read(from: impl Read) -> Result<Vec<Object>, DumpError> {
    let mut reader = Reader {
        from,
        offset: 0,
        chunk: Vec::new(),
    };
    let mut objects = Vec::new();
    loop {
        let offset = reader.offset;
        match reader.object() {
            Ok(Some(object)) => objects.push(object),
            Ok(None) => return Ok(objects),
            Err(Failure::Io(error)) => return Err(error.into()),
            Err(Failure::Malformed(what)) => {
                let object = objects.len() + 1;
                return Err(DumpError::Malformed {
                    object,
                    offset,
                    what,
                });
            }
        }
    }
}

fn write_number(to: &mut impl Write, number: usize) -> io::Result<()> {
    let number = u64::try_from(number).map_err(io::Error::other)?;
    to.write_all(&number.to_ne_bytes())
}

/// Writes a dump.
pub fn write<'o>(
    mut to: impl Write,
    objects: impl IntoIterator<Item = &'o Object>,
) -> io::Result<()> {
    for Object { name, counters } in objects {
        write_number(&mut to, name.len())?;
        to.write_all(name.as_bytes())?;
        let padding = name.len().next_multiple_of(8) - name.len();
        to.write_all([0; 8].get(..padding).unwrap_or_default())?;
        write_number(&mut to, counters.len())?;
        for counter in counters {
            to.write_all(&counter.to_ne_bytes())?;
        }
    }
    to.flush()
}

/// Makes one object of those with the same name, such as those of a module that was unloaded and loaded again. Returns
/// the names of objects that were dropped, as a later one has another number of counters.
pub fn unite(objects: Vec<Object>) -> (Vec<Object>, Vec<OsString>) {
    let mut united: Vec<Object> = Vec::with_capacity(objects.len());
    let mut places: HashMap<OsString, usize> = HashMap::with_capacity(objects.len());
    let mut dropped = Vec::new();
    for object in objects {
        let place = places.get(&object.name).copied();
        match place.and_then(|place| united.get_mut(place)) {
            Some(first) if first.counters.len() == object.counters.len() => {
                for (sum, counter) in first.counters.iter_mut().zip(object.counters) {
                    *sum = sum.saturating_add(counter);
                }
            }
            Some(first) => {
                dropped.push(object.name);
                first.counters = object.counters;
            }
            None => {
                places.insert(object.name.clone(), united.len());
                united.push(object);
            }
        }
    }
    (united, dropped)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn object(name: &[u8], counters: &[u64]) -> Object {
        Object {
            name: OsString::from_vec(name.to_owned()),
            counters: counters.to_owned(),
        }
    }

    fn bytes(objects: &[Object]) -> Vec<u8> {
        let mut bytes = Vec::new();
        write(&mut bytes, objects).unwrap();
        bytes
    }

    fn malformation(bytes: &[u8]) -> (usize, u64, Malformation) {
        match read(bytes).unwrap_err() {
            DumpError::Malformed {
                object,
                offset,
                what,
            } => (object, offset, what),
            DumpError::Io(error) => panic!("{error}"),
        }
    }

    #[test]
    fn layout() {
        let mut expected = Vec::new();
        expected.extend(9u64.to_ne_bytes());
        expected.extend(b"/a/b.gcda\0\0\0\0\0\0\0");
        expected.extend(2u64.to_ne_bytes());
        expected.extend(7u64.to_ne_bytes());
        expected.extend(u64::MAX.to_ne_bytes());
        expected.extend(8u64.to_ne_bytes());
        expected.extend(b"/ab.gcda");
        expected.extend(0u64.to_ne_bytes());
        let objects = [
            object(b"/a/b.gcda", &[7, u64::MAX]),
            object(b"/ab.gcda", &[]),
        ];
        assert_eq!(bytes(&objects), expected);
        assert_eq!(read(&expected[..]).unwrap(), objects);
        assert_eq!(read(&b""[..]).unwrap(), []);
    }

    #[test]
    fn impossible_numbers() {
        let number = |number: u64| number.to_ne_bytes();
        let name = [number(8).as_slice(), b"/ab.gcda"].concat();
        assert_eq!(
            malformation(&number(0)),
            (1, 0, Malformation::NameLength(0))
        );
        assert_eq!(
            malformation(&number(u64::MAX)),
            (1, 0, Malformation::NameLength(u64::MAX))
        );
        assert_eq!(
            malformation(&number(8u64.swap_bytes())).2,
            Malformation::ByteOrder
        );
        for (count, what) in [
            (u64::MAX, Malformation::Counters(u64::MAX)),
            (1 << 60, Malformation::Counters(1 << 60)),
            (1 << 40, Malformation::Truncated(Part::Counters)),
        ] {
            let lie = [&name[..], &number(count), &number(1)].concat();
            assert_eq!(malformation(&lie), (1, 0, what));
        }
        let second = [&name[..], &number(0), &number(5000)].concat();
        assert_eq!(
            malformation(&second),
            (2, 24, Malformation::NameLength(5000))
        );
        let text = b"ferrotrace: not a dump at all";
        assert!(matches!(malformation(text).2, Malformation::NameLength(_)));
    }

    #[test]
    fn odd_names() {
        let with = |name: &[u8]| {
            let len = u64::try_from(name.iter().position(|byte| *byte == b'|').unwrap()).unwrap();
            let name: Vec<u8> = name.iter().copied().filter(|byte| *byte != b'|').collect();
            [&len.to_ne_bytes()[..], &name, &0u64.to_ne_bytes()].concat()
        };
        assert_eq!(malformation(&with(b"/a\0.gcda|")).2, Malformation::Nul);
        assert_eq!(malformation(&with(b"/a.gcd|a")).2, Malformation::Padding);
        let name = b"/a b/\xff\xfe\n.gcda|\0\0\0";
        assert_eq!(
            read(&with(name)[..]).unwrap(),
            [object(b"/a b/\xff\xfe\n.gcda", &[])]
        );
    }

    #[test]
    fn names_that_come_twice() {
        let (objects, dropped) = unite(vec![
            object(b"a", &[1, 2]),
            object(b"b", &[3]),
            object(b"a", &[10, u64::MAX]),
            object(b"b", &[4, 5]),
        ]);
        assert_eq!(
            objects,
            [object(b"a", &[11, u64::MAX]), object(b"b", &[4, 5])]
        );
        assert_eq!(dropped, ["b"]);
    }

    prop_compose! {
        fn any_object()(name in prop::collection::vec(1u8.., 1..40), counters in prop::collection::vec(any::<u64>(), 0..40))
            -> Object { object(&name, &counters) }
    }

    proptest! {
        #[test]
        fn what_was_written(objects in prop::collection::vec(any_object(), 0..5)) {
            prop_assert_eq!(read(&bytes(&objects)[..]).unwrap(), objects);
        }

        /// Each prefix is a dump of the first objects, if it ends between objects, and else none.
        #[test]
        fn prefixes(objects in prop::collection::vec(any_object(), 1..4)) {
            let whole = bytes(&objects);
            let ends: Vec<usize> = (0..=objects.len()).map(|count| bytes(&objects[..count]).len()).collect();
            for len in 0..whole.len() {
                match (read(&whole[..len]), ends.binary_search(&len)) {
                    (Ok(read), Ok(count)) => prop_assert_eq!(&read[..], &objects[..count]),
                    (Err(DumpError::Malformed { object, offset, what: Malformation::Truncated(_) }), Err(next)) => {
                        prop_assert_eq!(object, next);
                        prop_assert_eq!(usize::try_from(offset).unwrap(), ends[next - 1]);
                    }
                    (other, _) => prop_assert!(false, "{len}: {other:?}"),
                }
            }
        }

        #[test]
        fn anything(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(objects) = read(&bytes[..]) {
                prop_assert_eq!(self::bytes(&objects), bytes);
            }
        }
    }
}
