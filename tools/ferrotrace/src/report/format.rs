// SPDX-License-Identifier: GPL-2.0

//! The description of a record, in the form that tracefs uses for its events.
//!
//! The text comes with a recording and may say anything; what it says is checked here once, so that
//! the rest can rely on it.

#![deny(unsafe_code)]

use thiserror::Error;

/// No record is larger: a page of the largest size in use, and more than any sub-buffer sensibly
/// holds of one record.
pub const MAX_RECORD: usize = 1 << 20;

/// Records are laid out in multiples of this.
const ALIGN: usize = 8;

/// What is wrong with a description.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum FormatError {
    /// Nothing is described.
    #[error("describes no field")]
    Empty,
    /// A line that starts like a field does not go on like one.
    #[error("line {line}: {what}")]
    Syntax {
        /// Counted from 1.
        line: usize,
        /// What is wrong.
        what: &'static str,
    },
    /// A field without bytes.
    #[error("field {0}: its size is zero")]
    ZeroSize(String),
    /// A field that ends too far out.
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
    /// Two fields of one name.
    #[error("field {0} is described twice")]
    Twice(String),
    /// An array whose elements have no whole size.
    #[error("field {name}: {size} bytes are not {count} elements")]
    BadArray {
        /// The field.
        name: String,
        /// Its size.
        size: usize,
        /// The number of elements declared.
        count: usize,
    },
    /// A field whose length differs from record to record.
    #[error("field {0}: data of variable length are not supported, records have one size")]
    Variable(String),
    /// There must be a time to merge by.
    #[error("there is no field named time, an unsigned number of 4 or 8 bytes")]
    NoTime,
    /// The CPU is no number.
    #[error("field cpu: not a number of 1, 2, 4 or 8 bytes")]
    BadCpu,
}

/// How the bytes of a field are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A number.
    Unsigned,
    /// A number that may be negative.
    Signed,
    /// An address.
    Hex,
    /// Characters up to the first NUL.
    Text,
    /// Numbers of that many bytes each.
    Array {
        /// Bytes of an element.
        element: usize,
        /// Whether they may be negative.
        signed: bool,
    },
    /// Anything else.
    Bytes,
}

/// A field of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Where it starts.
    pub offset: usize,
    /// Its bytes, at least one.
    pub size: usize,
    /// How it is shown.
    pub kind: Kind,
}

/// The description of a record.
///
/// # Invariants
///
/// All fields lie inside `record_size` bytes and do not overlap; `time` is one of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format {
    /// What the record is called.
    pub name: String,
    /// Its fields, in the order of the description.
    pub fields: Vec<Field>,
    /// Bytes from one record to the next.
    pub record_size: usize,
    time: Field,
    cpu: Option<Field>,
}

impl Field {
    /// The field's bytes in `record`.
    pub fn bytes<'a>(&self, record: &'a [u8]) -> &'a [u8] {
        record
            .get(self.offset..self.offset + self.size)
            .unwrap_or_default()
    }
}

/// The number in 1, 2, 4 or 8 bytes.
pub fn unsigned(bytes: &[u8]) -> Option<u64> {
    match *bytes {
        [a] => Some(u64::from(a)),
        [a, b] => Some(u64::from(u16::from_ne_bytes([a, b]))),
        [a, b, c, d] => Some(u64::from(u32::from_ne_bytes([a, b, c, d]))),
        _ => Some(u64::from_ne_bytes(bytes.try_into().ok()?)),
    }
}

/// The same with a sign.
pub fn signed(bytes: &[u8]) -> Option<i64> {
    match *bytes {
        [a] => Some(i64::from(i8::from_ne_bytes([a]))),
        [a, b] => Some(i64::from(i16::from_ne_bytes([a, b]))),
        [a, b, c, d] => Some(i64::from(i32::from_ne_bytes([a, b, c, d]))),
        _ => Some(i64::from_ne_bytes(bytes.try_into().ok()?)),
    }
}

fn is_number(size: usize) -> bool {
    matches!(size, 1 | 2 | 4 | 8)
}

impl Format {
    /// Parses and checks a description.
    pub fn parse(text: &str) -> Result<Self, FormatError> {
        let mut name = None;
        let mut fields = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if let Some(rest) = line.strip_prefix("name:") {
                name.get_or_insert_with(|| rest.trim().to_owned());
            } else if let Some(rest) = line.strip_prefix("field:") {
                fields.push(parse_field(rest, index + 1)?);
            }
            // "ID:", "format:", "print fmt:" and whatever comes to be: not needed.
        }
        Self::new(name.unwrap_or_else(|| "record".to_owned()), fields)
    }

    fn new(name: String, fields: Vec<Field>) -> Result<Self, FormatError> {
        let mut sorted: Vec<&Field> = fields.iter().collect();
        sorted.sort_by(|a, b| a.name.cmp(&b.name));
        for (a, b) in sorted.iter().zip(sorted.iter().skip(1)) {
            if a.name == b.name {
                return Err(FormatError::Twice(a.name.clone()));
            }
        }
        sorted.sort_by_key(|field| field.offset);
        for (a, b) in sorted.iter().zip(sorted.iter().skip(1)) {
            if a.offset + a.size > b.offset {
                return Err(FormatError::Overlap(a.name.clone(), b.name.clone()));
            }
        }
        let end = sorted.last().map(|field| field.offset + field.size);
        let end = end.ok_or(FormatError::Empty)?;

        let find = |name| fields.iter().find(|field| field.name == name).cloned();
        let time = find("time")
            .filter(|time| matches!(time.size, 4 | 8) && time.kind == Kind::Unsigned)
            .ok_or(FormatError::NoTime)?;
        let cpu = find("cpu");
        if let Some(cpu) = &cpu {
            let number = matches!(cpu.kind, Kind::Unsigned | Kind::Signed);
            if !number || !is_number(cpu.size) {
                return Err(FormatError::BadCpu);
            }
        }
        // INVARIANT: the last field ends at `end`, the others before they reach the next one.
        Ok(Self {
            record_size: end.next_multiple_of(ALIGN),
            name,
            fields,
            time,
            cpu,
        })
    }

    /// When `record` was written, in nanoseconds of the client's clock.
    pub fn time(&self, record: &[u8]) -> u64 {
        unsigned(self.time.bytes(record)).unwrap_or(0)
    }

    /// On which CPU, if the record says so.
    pub fn cpu(&self, record: &[u8]) -> Option<u32> {
        let cpu = unsigned(self.cpu.as_ref()?.bytes(record))?;
        u32::try_from(cpu).ok()
    }

    /// The fields to show: not the time and the CPU, which stand at the start of the line.
    pub fn shown(&self) -> impl Iterator<Item = &Field> {
        self.fields
            .iter()
            .filter(|field| field.name != "time" && field.name != "cpu")
    }
}

/// Parses what follows `field:`, such as `char comm[16];\toffset:8;\tsize:16;\tsigned:0;`.
fn parse_field(text: &str, line: usize) -> Result<Field, FormatError> {
    let wrong = |what| FormatError::Syntax { line, what };
    let mut parts = text.split(';').map(str::trim);
    let declaration = parts.next().unwrap_or_default();
    let (mut offset, mut size, mut signed) = (None, None, false);
    for part in parts.filter(|part| !part.is_empty()) {
        let (key, value) = part
            .split_once(':')
            .ok_or(wrong("something without a colon after the field"))?;
        let number: usize = value
            .trim()
            .parse()
            .map_err(|_| wrong("offset, size or signed is no number"))?;
        match key.trim() {
            "offset" => offset = Some(number),
            "size" => size = Some(number),
            "signed" => signed = number != 0,
            _ => (),
        }
    }
    let offset = offset.ok_or(wrong("a field without an offset"))?;
    let size = size.ok_or(wrong("a field without a size"))?;

    let (ty, name, count) =
        parse_declaration(declaration).ok_or(wrong("a field without a name"))?;
    let name = name.to_owned();
    if ty.starts_with("__data_loc") || ty.starts_with("__rel_loc") {
        return Err(FormatError::Variable(name));
    }
    if size == 0 {
        return Err(FormatError::ZeroSize(name));
    }
    if offset.checked_add(size).is_none_or(|end| end > MAX_RECORD) {
        return Err(FormatError::TooLarge { name, offset, size });
    }
    let kind = kind(ty, &name, count, size, signed)?;
    Ok(Field {
        name,
        offset,
        size,
        kind,
    })
}

/// The type, the name and, for an array, what stands between the brackets.
fn parse_declaration(text: &str) -> Option<(&str, &str, Option<&str>)> {
    let (text, count) = match text.split_once('[') {
        Some((text, rest)) => (text, Some(rest.split_once(']')?.0.trim())),
        None => (text, None),
    };
    let text = text.trim();
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let ty = text.trim_end_matches(is_name);
    let name = text.get(ty.len()..)?;
    let starts_well = name.starts_with(|c: char| !c.is_ascii_digit());
    (starts_well && !ty.trim().is_empty()).then_some((ty.trim(), name, count))
}

fn kind(
    ty: &str,
    name: &str,
    count: Option<&str>,
    size: usize,
    signed: bool,
) -> Result<Kind, FormatError> {
    let has = |word| ty.split_ascii_whitespace().any(|part| part == word);
    if let Some(count) = count {
        if has("char") && !has("unsigned") && !has("signed") {
            return Ok(Kind::Text);
        }
        // tracefs prints some lengths by the name of a macro; then only the bytes are known.
        let Ok(count) = count.parse::<usize>() else {
            return Ok(Kind::Bytes);
        };
        let element = size.checked_div(count).unwrap_or(0);
        if element == 0 || element * count != size {
            let name = name.to_owned();
            return Err(FormatError::BadArray { name, size, count });
        }
        return Ok(if is_number(element) {
            Kind::Array { element, signed }
        } else {
            Kind::Bytes
        });
    }
    let address = size == 8 && (name == "ip" || name.ends_with("_ip") || name.ends_with("addr"));
    Ok(if !is_number(size) {
        Kind::Bytes
    } else if ty.contains('*') || address {
        Kind::Hex
    } else if signed {
        Kind::Signed
    } else {
        Kind::Unsigned
    })
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

    fn described(fields: &[(&str, usize, usize)]) -> Result<Format, FormatError> {
        let mut text = String::from("field:u64 time;offset:0;size:8;\n");
        for (declaration, offset, size) in fields {
            text.push_str(&format!(
                "field:{declaration};offset:{offset};size:{size};\n"
            ));
        }
        Format::parse(&text)
    }

    #[test]
    fn a_description_is_understood() {
        let format = Format::parse(SWITCH).unwrap();
        assert_eq!(format.name, "sched_switch");
        assert_eq!(format.record_size, 64);
        let kinds: Vec<_> = format.fields.iter().map(|field| field.kind).collect();
        let array = |element| Kind::Array {
            element,
            signed: false,
        };
        assert_eq!(
            kinds,
            [
                Kind::Unsigned,
                Kind::Unsigned,
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
        assert_eq!(format.time(&record), 77);
        assert_eq!(format.cpu(&record), Some(3));
        let shown: Vec<_> = format.shown().map(|field| field.name.as_str()).collect();
        assert_eq!(
            shown,
            ["prev_pid", "prev_comm", "caller_addr", "task", "v", "raw"]
        );
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
        assert!(matches!(
            described(&[("__data_loc char[] a", 8, 4)]),
            Err(E::Syntax { .. } | E::Variable(_))
        ));
        assert_eq!(described(&[("char cpu[4]", 8, 4)]), Err(E::BadCpu));
        assert_eq!(Format::parse(""), Err(E::Empty));
        assert_eq!(
            Format::parse("field:u64 t;offset:0;size:8;"),
            Err(E::NoTime)
        );
        assert_eq!(
            Format::parse("field:s64 time;offset:0;size:8;signed:1;"),
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
                matches!(Format::parse(bad), Err(E::Syntax { line: 1, .. })),
                "{bad}"
            );
        }
    }

    proptest! {
        #[test]
        fn nothing_makes_the_parser_panic(text in "\\PC*") {
            let _ = Format::parse(&text);
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
            if let Ok(format) = Format::parse(&text) {
                prop_assert!(format.record_size % ALIGN == 0);
                let mut used = vec![false; format.record_size];
                for field in &format.fields {
                    prop_assert!(field.size > 0);
                    for byte in &mut used[field.offset..field.offset + field.size] {
                        prop_assert!(!std::mem::replace(byte, true));
                    }
                }
                // Short records are for the reader to reject; here they must only not panic.
                let _ = (format.time(&record), format.cpu(&record));
            }
        }
    }
}
