// SPDX-License-Identifier: GPL-2.0

//! The value of a field, as text and as JSON.

#![deny(unsafe_code)]

use std::borrow::Cow;
use std::fmt;

use serde::Serialize;
use serde::Serializer;
use serde::ser::SerializeSeq;

use super::field::Field;
use super::field::Kind;
use super::field::signed;
use super::field::unsigned;
use crate::text::printable;

/// A field of a record with its bytes.
#[derive(Clone, Copy, Debug)]
pub struct Value<'a> {
    kind: Kind,
    bytes: &'a [u8],
}

impl<'a> Value<'a> {
    /// The value of `field` in `record`.
    pub fn new(field: &Field, record: &'a [u8]) -> Self {
        Self {
            kind: field.kind,
            bytes: field.bytes(record),
        }
    }

    fn elements(self, element: usize, signed: bool) -> impl Iterator<Item = Self> {
        let kind = if signed { Kind::Signed } else { Kind::Unsigned };
        let elements = self.bytes.chunks_exact(element.max(1));
        elements.map(move |bytes| Self { kind, bytes })
    }
}

/// Characters up to the first NUL. Bytes that are not UTF-8 are replaced.
pub fn text(bytes: &[u8]) -> Cow<'_, str> {
    let end = bytes.iter().position(|&byte| byte == 0);
    String::from_utf8_lossy(bytes.get(..end.unwrap_or(bytes.len())).unwrap_or_default())
}

impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Kind::Unsigned => write!(f, "{}", unsigned(self.bytes).unwrap_or_default()),
            Kind::Signed => write!(f, "{}", signed(self.bytes).unwrap_or_default()),
            Kind::Hex => write!(f, "{:#x}", unsigned(self.bytes).unwrap_or_default()),
            Kind::Text => f.write_str(&printable(&text(self.bytes))),
            Kind::Array { element, signed } => {
                f.write_str("{")?;
                for (index, value) in self.elements(element, signed).enumerate() {
                    let comma = if index > 0 { "," } else { "" };
                    write!(f, "{comma}{value}")?;
                }
                f.write_str("}")
            }
            Kind::Bytes => self
                .bytes
                .iter()
                .try_for_each(|byte| write!(f, "{byte:02x}")),
        }
    }
}

impl Serialize for Value<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.kind {
            Kind::Unsigned => to.serialize_u64(unsigned(self.bytes).unwrap_or_default()),
            Kind::Signed => to.serialize_i64(signed(self.bytes).unwrap_or_default()),
            Kind::Array { element, signed } => {
                let mut seq = to.serialize_seq(None)?;
                for value in self.elements(element, signed) {
                    seq.serialize_element(&value)?;
                }
                seq.end()
            }
            // Numbers in JSON are decimal.
            Kind::Hex | Kind::Text | Kind::Bytes => to.collect_str(self),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(kind: Kind, bytes: &[u8]) -> String {
        Value { kind, bytes }.to_string()
    }

    fn json(kind: Kind, bytes: &[u8]) -> String {
        serde_json::to_string(&Value { kind, bytes }).unwrap()
    }

    fn both(kind: Kind, bytes: &[u8], expected: &str) {
        assert_eq!(show(kind, bytes), expected);
        assert_eq!(json(kind, bytes), expected);
    }

    #[test]
    fn values_look_as_in_tracefs() {
        both(Kind::Unsigned, &7u32.to_ne_bytes(), "7");
        both(Kind::Signed, &(-7i32).to_ne_bytes(), "-7");
        let max = u64::MAX.to_string();
        both(Kind::Unsigned, &u64::MAX.to_ne_bytes(), &max);
        assert_eq!(show(Kind::Hex, &0xabcu64.to_ne_bytes()), "0xabc");
        assert_eq!(json(Kind::Hex, &0xabcu64.to_ne_bytes()), "\"0xabc\"");
        assert_eq!(show(Kind::Text, b"bash\0rest"), "bash");
        assert_eq!(show(Kind::Text, b"full"), "full");
        assert_eq!(show(Kind::Text, b"\x1b[2J\xff"), "\\u001b[2J\u{fffd}");
        assert_eq!(json(Kind::Text, b"say \"hi\""), r#""say \"hi\"""#);
        assert_eq!(show(Kind::Bytes, &[1, 0xff, 3]), "01ff03");
        let array = Kind::Array {
            element: 2,
            signed: true,
        };
        let mut two = (-1i16).to_ne_bytes().to_vec();
        two.extend(5i16.to_ne_bytes());
        assert_eq!(show(array, &two), "{-1,5}");
        assert_eq!(json(array, &two), "[-1,5]");
    }
}
