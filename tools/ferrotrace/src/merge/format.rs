// SPDX-License-Identifier: GPL-2.0

//! The description of records, in the form that tracefs uses for its events.
//!
//! The text comes with a recording and cannot be trusted; it is checked here once, so that the rest
//! can rely on it.

#![deny(unsafe_code)]

use std::collections::BTreeMap;

use thiserror::Error;

use super::field::Field;
use super::field::Kind;
use super::field::Place;
use super::field::is_number;
use super::field::parse_field;
use super::field::unsigned;
use crate::text::printable;

/// Last field of records with calls in a description: addresses.
pub const DECLARATION: &str = "u64 stack[]";

/// The most bytes of a record: more than a record in any sensible sub-buffer has.
pub const MAX_RECORD: usize = 1 << 20;

/// Records are laid out in multiples of this.
const ALIGN: usize = 8;

/// Error in a description.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum FormatError {
    /// Nothing is described.
    #[error("describes no field")]
    Empty,
    /// A line that starts like a field is not one.
    #[error("line {line}: {what}")]
    Syntax {
        /// Counted from 1.
        line: usize,
        /// Error text.
        what: &'static str,
    },
    /// A field without bytes.
    #[error("field {0}: its size is zero")]
    ZeroSize(String),
    /// A field that ends beyond [`MAX_RECORD`].
    #[error("field {name}: offset {offset} and size {size} are beyond {MAX_RECORD} bytes")]
    TooLarge {
        /// The field.
        name: String,
        /// Its offset.
        offset: usize,
        /// Its size.
        size: usize,
    },
    /// Two fields on the same bytes.
    #[error("fields {0} and {1} overlap")]
    Overlap(String, String),
    /// Two fields with the same name.
    #[error("field {0} is described twice")]
    Twice(String),
    /// An array whose size is not a multiple of its number of elements.
    #[error("field {name}: {size} bytes are not {count} elements")]
    BadArray {
        /// The field.
        name: String,
        /// Its size.
        size: usize,
        /// The number of elements declared.
        count: usize,
    },
    /// A field whose length differs from record to record, in a way that cannot be decoded.
    #[error("field {0}: its length differs from record to record, which is not supported here")]
    Variable(String),
    /// Only the last field can take the rest of the record.
    #[error("field {0}: takes the rest of the record, but other fields follow")]
    RestNotLast(String),
    /// Records of one size have one description.
    #[error(
        "{0} and {1} are described, but records that carry no type can have one description only"
    )]
    Several(String, String),
    /// A type that no record can carry.
    #[error("{0}: has no line \"ID:\" with a number up to 65535, the type of its records")]
    NoId(String),
    /// Two descriptions of the same type.
    #[error("{0} and {1} have the same ID {2}")]
    SameId(String, String, u16),
    /// There must be a time to merge by.
    #[error("there is no field named time, an unsigned number of 4 or 8 bytes")]
    NoTime,
    /// The CPU is not a number.
    #[error("field cpu: not a number of 1, 2, 4 or 8 bytes")]
    BadCpu,
}

/// The description of the records of one type.
///
/// # Invariants
///
/// All fields are inside `len` bytes and do not overlap, except one without a size, which starts
/// where the others end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format {
    /// The name of the record.
    pub name: String,
    /// Distinguishes the descriptions of a recording: the type, or for [`Format::raw`] a number
    /// that no type has.
    pub id: u32,
    /// Its fields, in the order of the description, without the time and the CPU, which precede
    /// them.
    pub fields: Vec<Field>,
    /// The fewest bytes that a record has.
    pub len: usize,
    /// Where addresses of calls begin, which a field of text stands for: see [`super::calls`].
    pub calls: Option<usize>,
    time: Option<Field>,
    cpu: Option<Field>,
}

/// Records of one size, which are ordered by the time that they contain.
///
/// # Invariants
///
/// The description has a time, and no field without a size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FixedFormat {
    /// The description.
    pub format: Format,
    /// Bytes from one record to the next.
    pub record_size: usize,
}

/// Records that carry their type, and a description for each type that has one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TypedFormats(BTreeMap<u16, Format>);

/// One description, as it was read.
#[derive(Default)]
struct Block {
    name: Option<String>,
    id: Option<u16>,
    fields: Vec<Field>,
    /// True if the field for the rest of the record has addresses of calls.
    has_calls: bool,
}

/// Parses all descriptions; each starts with its name.
fn parse(text: &str) -> Result<Vec<Block>, FormatError> {
    let mut blocks = vec![Block::default()];
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if let Some(rest) = line.strip_prefix("name:") {
            blocks.push(Block {
                name: Some(printable(rest.trim()).into_owned()),
                ..Block::default()
            });
        } else if let Some(block) = blocks.last_mut() {
            if line
                .strip_prefix("field:")
                .is_some_and(|rest| rest.trim().starts_with(DECLARATION))
            {
                block.has_calls = true;
            }
            if let Some(rest) = line.strip_prefix("ID:") {
                block.id = rest.trim().parse().ok();
            } else if let Some(rest) = line.strip_prefix("field:") {
                block.fields.push(parse_field(rest, index + 1)?);
            }
            // "format:", "print fmt:" and anything that is added later are not needed.
        }
    }
    // What is before the first name counts if it describes something.
    blocks.retain(|block| block.name.is_some() || !block.fields.is_empty());
    Ok(blocks)
}

impl Format {
    fn new(name: String, id: u32, fields: Vec<Field>) -> Result<Self, FormatError> {
        let mut sorted: Vec<&Field> = fields.iter().collect();
        sorted.sort_by(|a, b| a.name.cmp(&b.name));
        for (a, b) in sorted.iter().zip(sorted.iter().skip(1)) {
            if a.name == b.name {
                return Err(FormatError::Twice(a.name.clone()));
            }
        }
        sorted.sort_by_key(|field| (field.offset, field.size.is_none()));
        for (a, b) in sorted.iter().zip(sorted.iter().skip(1)) {
            if a.size.is_none() {
                return Err(FormatError::RestNotLast(a.name.clone()));
            }
            if a.end() > b.offset {
                return Err(FormatError::Overlap(a.name.clone(), b.name.clone()));
            }
        }
        // INVARIANT: the last field ends here, the others before they reach the next one.
        let len = sorted.last().map_or(0, |field| field.end());
        let mut format = Self {
            name,
            id,
            fields,
            len,
            calls: None,
            time: None,
            cpu: None,
        };
        format.time = format.take("time", |time| {
            matches!(time.size, Some(4 | 8)) && time.kind == Kind::Unsigned
        });
        format.cpu = format.take("cpu", |cpu| {
            matches!(cpu.kind, Kind::Unsigned | Kind::Signed) && cpu.size.is_some_and(is_number)
        });
        Ok(format)
    }

    /// Removes and returns the field with that name, if there is one and it is `good`.
    fn take(&mut self, name: &str, good: impl Fn(&Field) -> bool) -> Option<Field> {
        let found = |field: &Field| field.name == name && good(field);
        let index = self.fields.iter().position(found)?;
        Some(self.fields.remove(index))
    }

    /// When `record` was written, in nanoseconds of the client's clock, if the record says so.
    pub fn time(&self, record: &[u8]) -> Option<u64> {
        unsigned(self.time.as_ref()?.bytes(record))
    }

    /// On which CPU `record` was written, if the record says so.
    pub fn cpu(&self, record: &[u8]) -> Option<u32> {
        let cpu = unsigned(self.cpu.as_ref()?.bytes(record))?;
        u32::try_from(cpu).ok()
    }

    /// A name for the length of `field`, which takes the rest of a record, that no field has.
    pub fn length_name(&self, field: &Field) -> String {
        let mut length = format!("{}_length", field.name);
        while self.fields.iter().any(|other| other.name == length) {
            length.push('_');
        }
        length
    }

    /// The description of records of the unknown type `id`: their bytes.
    pub fn raw(id: u16) -> Self {
        let data = Field {
            name: "data".to_owned(),
            offset: 0,
            size: None,
            kind: Kind::Bytes,
            place: Place::Here,
        };
        Self {
            name: format!("type_{id}"),
            id: RAW | u32::from(id),
            fields: vec![data],
            len: 0,
            calls: None,
            time: None,
            cpu: None,
        }
    }
}

/// Set in [`Format::id`] where it is not the type of a description.
const RAW: u32 = 1 << 16;

impl FixedFormat {
    /// Parses and checks the description of a client whose records all have one form.
    pub fn parse(text: &str) -> Result<Self, FormatError> {
        let mut blocks = parse(text)?.into_iter();
        let block = blocks.next().ok_or(FormatError::Empty)?;
        let name = |name: Option<String>| name.unwrap_or_else(|| "record".to_owned());
        if let Some(other) = blocks.next() {
            return Err(FormatError::Several(name(block.name), name(other.name)));
        }
        if block.fields.is_empty() {
            return Err(FormatError::Empty);
        }
        let id = block.id.unwrap_or(0).into();
        let format = Format::new(name(block.name), id, block.fields)?;
        if let Some(rest) = format.fields.iter().find(|field| field.size.is_none()) {
            return Err(FormatError::Variable(rest.name.clone()));
        }
        if format.time.is_none() {
            return Err(FormatError::NoTime);
        }
        if format.fields.iter().any(|field| field.name == "cpu") {
            return Err(FormatError::BadCpu);
        }
        // INVARIANT: both are checked above.
        Ok(Self {
            record_size: format.len.next_multiple_of(ALIGN),
            format,
        })
    }
}

impl TypedFormats {
    /// Parses and checks the descriptions of a client whose records carry their type.
    pub fn parse(text: &str) -> Result<Self, FormatError> {
        let mut formats = BTreeMap::<u16, Format>::new();
        for block in parse(text)? {
            let name = block.name.unwrap_or_else(|| "record".to_owned());
            let id = block.id.ok_or_else(|| FormatError::NoId(name.clone()))?;
            let mut format = Format::new(name, id.into(), block.fields)?;
            let rest = format.fields.iter_mut().find(|field| field.size.is_none());
            if let (Some(rest), true) = (rest, block.has_calls) {
                rest.kind = Kind::Text;
                format.calls = Some(rest.offset);
            }
            if let Some(other) = formats.get(&id) {
                return Err(FormatError::SameId(other.name.clone(), format.name, id));
            }
            formats.insert(id, format);
        }
        Ok(Self(formats))
    }

    /// All descriptions.
    pub fn iter(&self) -> impl Iterator<Item = &Format> {
        self.0.values()
    }

    /// The description of records of a type.
    pub fn get(&self, id: u16) -> Option<&Format> {
        self.0.get(&id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SWITCH: &str = "\
name: sched_switch
ID: 0
format:
\tfield:u64 time;\toffset:0;\tsize:8;\tsigned:0;
\tfield:u32 cpu;\toffset:8;\tsize:4;\tsigned:0;
\tfield:pid_t prev_pid;\toffset:12;\tsize:4;\tsigned:1;
\tfield:char prev_comm[16];\toffset:16;\tsize:16;\tsigned:0;
\tfield:u64 caller_addr;\toffset:32;\tsize:8;\tsigned:0;
\tfield:void * task;\toffset:40;\tsize:8;\tsigned:0;
\tfield:u16 v[3];\toffset:48;\tsize:6;\tsigned:0;
\tfield:u8 raw[3];\toffset:54;\tsize:3;\tsigned:0;

print fmt: \"whatever\"
";

    fn described(fields: &[(&str, usize, usize)]) -> Result<FixedFormat, FormatError> {
        let mut text = String::from("field:u64 time;offset:0;size:8;\n");
        for (declaration, offset, size) in fields {
            text.push_str(&format!(
                "field:{declaration};offset:{offset};size:{size};\n"
            ));
        }
        FixedFormat::parse(&text)
    }

    #[test]
    fn a_description_is_understood() {
        let format = FixedFormat::parse(SWITCH).unwrap();
        assert_eq!(format.format.name, "sched_switch");
        assert_eq!(format.record_size, 64);
        let fields = &format.format.fields;
        let kinds: Vec<_> = fields.iter().map(|field| field.kind).collect();
        let array = |element| Kind::Array {
            element,
            signed: false,
        };
        assert_eq!(
            kinds,
            [
                Kind::Signed,
                Kind::Text,
                Kind::Hex,
                Kind::Hex,
                array(2),
                array(1)
            ]
        );
        let mut record = vec![0; 64];
        record[..8].copy_from_slice(&77u64.to_ne_bytes());
        record[8..12].copy_from_slice(&3u32.to_ne_bytes());
        assert_eq!(format.format.time(&record), Some(77));
        assert_eq!(format.format.cpu(&record), Some(3));
        let names: Vec<_> = fields.iter().map(|field| field.name.as_str()).collect();
        assert_eq!(
            names,
            ["prev_pid", "prev_comm", "caller_addr", "task", "v", "raw"]
        );
    }

    #[test]
    fn types_have_a_description_each() {
        let text = "\
name: open
ID: 3
format:
\tfield:u32 flags;\toffset:0;\tsize:4;\tsigned:0;
\tfield:char path[];\toffset:4;\tsize:0;\tsigned:0;
name: tick
ID: 65535
";
        let formats = TypedFormats::parse(text).unwrap();
        let open = formats.get(3).unwrap();
        assert_eq!((open.name.as_str(), open.id, open.len), ("open", 3, 4));
        let record = b"\x01\0\0\0/etc";
        let [flags, path] = &open.fields[..] else {
            panic!("{open:?}");
        };
        assert_eq!(flags.bytes(record), &record[..4]);
        assert_eq!((path.kind, path.bytes(record)), (Kind::Text, &b"/etc"[..]));
        assert_eq!(path.bytes(b"\x01\0\0\0"), b"");
        assert!(formats.get(65535).unwrap().fields.is_empty());
        assert_eq!(formats.get(0), None);
        assert_eq!(TypedFormats::parse("").unwrap(), TypedFormats::default());

        use FormatError as E;
        let parse = TypedFormats::parse;
        assert_eq!(parse("name: a\n"), Err(E::NoId("a".into())));
        assert_eq!(parse("name: a\nID: 65536\n"), Err(E::NoId("a".into())));
        let same = parse("name: a\nID: 1\nname: b\nID: 1\n");
        assert_eq!(same, Err(E::SameId("a".into(), "b".into(), 1)));
        let rest = "name: a\nID: 1\nfield:u8 x[];offset:4;size:0;\nfield:u8 y;offset:4;size:1;\n";
        // The field with a size comes first, wherever it is described.
        assert!(parse(rest).is_err());
        let rest = "name: a\nID: 1\nfield:u8 x[];offset:4;size:0;\nfield:u8 y;offset:3;size:1;\n";
        assert!(parse(rest).is_ok());
        let rest = "name: a\nID: 1\nfield:u8 x[];offset:4;size:0;\nfield:u8 y[];offset:8;size:0;\n";
        assert_eq!(parse(rest), Err(E::RestNotLast("x".into())));
    }

    #[test]
    fn lies_are_found() {
        use FormatError as E;
        let overlap = described(&[("u32 a", 8, 4), ("u32 b", 11, 4)]);
        assert_eq!(overlap, Err(E::Overlap("a".into(), "b".into())));
        assert_eq!(described(&[("u32 a", 8, 0)]), Err(E::ZeroSize("a".into())));
        let twice = described(&[("u32 a", 8, 4), ("u32 a", 12, 4)]);
        assert_eq!(twice, Err(E::Twice("a".into())));
        for (offset, size) in [(MAX_RECORD, 1), (usize::MAX, 8), (8, usize::MAX)] {
            assert!(matches!(
                described(&[("u32 a", offset, size)]),
                Err(E::TooLarge { .. })
            ));
        }
        assert!(matches!(
            described(&[("u16 a[4]", 8, 6)]),
            Err(E::BadArray { .. })
        ));
        assert!(matches!(
            described(&[("u16 a[0]", 8, 6)]),
            Err(E::BadArray { .. })
        ));
        assert_eq!(
            described(&[("__data_loc char[] a", 8, 8)]),
            Err(E::Variable("a".into()))
        );
        assert!(described(&[("__data_loc char[] a", 8, 4)]).is_ok());
        assert_eq!(described(&[("char cpu[4]", 8, 4)]), Err(E::BadCpu));
        let variable = described(&[("char rest[]", 8, 0)]);
        assert_eq!(variable, Err(E::Variable("rest".into())));
        let several = FixedFormat::parse("name: a\nfield:u8 x;offset:0;size:1;\nname: b\n");
        assert_eq!(several, Err(E::Several("a".into(), "b".into())));
        assert_eq!(FixedFormat::parse(""), Err(E::Empty));
        assert_eq!(
            FixedFormat::parse("field:u64 t;offset:0;size:8;"),
            Err(E::NoTime)
        );
        assert_eq!(
            FixedFormat::parse("field:s64 time;offset:0;size:8;signed:1;"),
            Err(E::NoTime)
        );
        for bad in [
            "field:",
            "field:u64;offset:0;size:8",
            "field:u64 a;offset:x;size:8",
            "field:u64 a;offset:0",
            "field:u64 a;size:8",
            "field:u64 a;junk",
            "field:u64 a[3;offset:0;size:8",
            "field:u64 a;offset:-8;size:8",
        ] {
            assert!(
                matches!(FixedFormat::parse(bad), Err(E::Syntax { line: 1, .. })),
                "{bad}"
            );
        }
    }

    proptest! {
        #[test]
        fn nothing_makes_the_parser_panic(text in "\\PC*") {
            let _ = FixedFormat::parse(&text);
        }

        /// Text that is nearly right gets further.
        #[test]
        fn what_is_accepted_keeps_the_invariants(
            fields in prop::collection::vec(
                (
                    "(u8|u64|char|char \\*|unsigned char|__data_loc char\\[\\]) ?[a-c]?(time|cpu)?(\\[[0-9x]{0,3}\\])?",
                    prop_oneof![0usize..80, any::<usize>()],
                    prop_oneof![0usize..20, any::<usize>()],
                    any::<bool>(),
                ),
                0..6,
            ),
            record in prop::collection::vec(any::<u8>(), 0..100),
        ) {
            let mut text = String::from("name: x\nfield:u64 time;offset:8;size:8;signed:0;\n");
            for (declaration, offset, size, signed) in fields {
                let signed = u8::from(signed);
                text.push_str(&format!(
                    "\tfield:{declaration};\toffset:{offset};\tsize:{size};\tsigned:{signed};\n"
                ));
            }
            if let Ok(format) = FixedFormat::parse(&text) {
                prop_assert!(format.record_size % ALIGN == 0);
                let mut used = vec![false; format.record_size];
                for field in &format.format.fields {
                    prop_assert!(field.size.unwrap() > 0);
                    for byte in &mut used[field.offset..field.end()] {
                        prop_assert!(!std::mem::replace(byte, true));
                    }
                }
                // Short records are for the reader to reject; here they must only not panic.
                let _ = (format.format.time(&record), format.format.cpu(&record));
            }
        }
    }
}
