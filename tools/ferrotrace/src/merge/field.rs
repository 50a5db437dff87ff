// SPDX-License-Identifier: GPL-2.0

//! One field of a record, and the line that describes it.

#![deny(unsafe_code)]

use super::format::FormatError;
use super::format::MAX_RECORD;

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
        /// True if the elements are signed.
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
    /// Its size in bytes, at least one; a field without a size takes the rest of the record.
    pub size: Option<usize>,
    /// How it is shown.
    pub kind: Kind,
    /// Place of the value: fixed, or described by the record's bytes.
    pub place: Place,
}

/// Where the value of a field is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// In the field.
    #[default]
    Here,
    /// Behind the start of the record, as tracefs has texts: the upper half of the field is the length, the lower the distance.
    FromStart,
    /// The same behind the end of the field.
    FromEnd,
}

impl Field {
    /// Where it ends, or where the rest of the record begins.
    pub fn end(&self) -> usize {
        self.offset + self.size.unwrap_or(0)
    }

    /// The field's bytes in `record`.
    pub fn bytes<'a>(&self, record: &'a [u8]) -> &'a [u8] {
        let end = self.size.map_or(record.len(), |_| self.end());
        let bytes = record.get(self.offset..end).unwrap_or_default();
        let base = match self.place {
            Place::Here => return bytes,
            Place::FromStart => 0,
            Place::FromEnd => end,
        };
        let found = || {
            let word = u32::from_ne_bytes(*bytes.first_chunk()?);
            let at = base.checked_add(usize::try_from(word & 0xffff).ok()?)?;
            record.get(at..at.checked_add(usize::try_from(word >> 16).ok()?)?)
        };
        found().unwrap_or_default()
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

/// The same, signed.
pub fn signed(bytes: &[u8]) -> Option<i64> {
    match *bytes {
        [a] => Some(i64::from(i8::from_ne_bytes([a]))),
        [a, b] => Some(i64::from(i16::from_ne_bytes([a, b]))),
        [a, b, c, d] => Some(i64::from(i32::from_ne_bytes([a, b, c, d]))),
        _ => Some(i64::from_ne_bytes(bytes.try_into().ok()?)),
    }
}

/// Returns true if a number can have so many bytes.
pub fn is_number(size: usize) -> bool {
    matches!(size, 1 | 2 | 4 | 8)
}

/// Parses what follows `field:`, such as `char comm[16];\toffset:8;\tsize:16;\tsigned:0;`.
pub(super) fn parse_field(text: &str, line: usize) -> Result<Field, FormatError> {
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

    let located = ["__data_loc", "__rel_loc"]
        .into_iter()
        .zip([Place::FromStart, Place::FromEnd]);
    for (word, place) in located {
        let Some(rest) = declaration.strip_prefix(word) else {
            continue;
        };
        let name = rest.rsplit(' ').next().unwrap_or_default();
        if !name.chars().all(is_name) {
            return Err(wrong("a field without a name"));
        }
        let name = name.to_owned();
        if size != 4 || name.is_empty() {
            return Err(FormatError::Variable(name));
        }
        let is_text = rest.trim_start().starts_with("char[]");
        let mut field = plain(name, offset, size)?;
        // Of others it is only known where they are.
        if is_text {
            field.kind = Kind::Text;
            field.place = place;
        }
        return Ok(field);
    }
    let (ty, name, count) =
        parse_declaration(declaration).ok_or(wrong("a field without a name"))?;
    let name = name.to_owned();
    let rest = size == 0 && count == Some("");
    if size == 0 && !rest {
        return Err(FormatError::ZeroSize(name));
    }
    if offset.checked_add(size).is_none_or(|end| end > MAX_RECORD) {
        return Err(FormatError::TooLarge { name, offset, size });
    }
    let kind = kind(ty, &name, count, size, signed)?;
    Ok(Field {
        name,
        offset,
        size: (!rest).then_some(size),
        kind,
        place: Place::Here,
    })
}

/// A field that is a number.
fn plain(name: String, offset: usize, size: usize) -> Result<Field, FormatError> {
    if offset.checked_add(size).is_none_or(|end| end > MAX_RECORD) {
        return Err(FormatError::TooLarge { name, offset, size });
    }
    Ok(Field {
        name,
        offset,
        size: Some(size),
        kind: Kind::Unsigned,
        place: Place::Here,
    })
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// The type, the name and, for an array, what is between the brackets.
fn parse_declaration(text: &str) -> Option<(&str, &str, Option<&str>)> {
    let (text, count) = match text.split_once('[') {
        Some((text, rest)) => (text, Some(rest.split_once(']')?.0.trim())),
        None => (text, None),
    };
    let text = text.trim();
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
        // tracefs prints some lengths as the name of a macro; then only the bytes are known.
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
