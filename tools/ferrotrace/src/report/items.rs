// SPDX-License-Identifier: GPL-2.0

//! Slices and instants with the fields of their records, as a page carries them: a stream of bytes,
//! compressed, and tables of the texts that it numbers.
//!
//! Numbers in the stream have seven bits in each byte, the lowest first; the eighth bit says that
//! another byte follows. The items of a track come in the order of their times. An item is: the
//! nanoseconds since the item before it began, its length plus 1 (0 for an instant), the number of
//! its name, the bytes of its fields, and these. Fields begin with the number of their format, and
//! each is a number: signed ones have their sign in the lowest bit, texts and stacks are numbered.

#![deny(unsafe_code)]

use std::collections::BTreeMap;

use serde_json::Value as Json;
use serde_json::json;

use crate::export::tracks::Track;
use crate::merge::calls::BETWEEN;
use crate::merge::field::Field;
use crate::merge::field::Kind;
use crate::merge::field::signed;
use crate::merge::field::unsigned;
use crate::merge::format::Format;
use crate::merge::source::Event;
use crate::merge::value::Value;
use crate::text::printable;

/// The most texts of a kind that are told apart, and the most characters of one.
const TEXTS: usize = 1 << 17;
const CHARS: usize = 200;

/// The most calls that are told apart, and the most of a stack.
const CALLS: usize = 1 << 18;
const DEPTH: usize = 256;

/// The most bytes of fields.
const FIELDS: usize = 48 << 20;

/// Texts by number.
#[derive(Debug, Default)]
pub struct Texts {
    numbers: BTreeMap<String, u32>,
    texts: Vec<String>,
}

impl Texts {
    /// Returns the number of a text. Beyond [`TEXTS`] they share one.
    pub fn number(&mut self, text: &str) -> u32 {
        let text = printable(text);
        let text = match text.char_indices().nth(CHARS) {
            Some((end, _)) => text.get(..end).unwrap_or_default(),
            None => &text,
        };
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        if self.texts.len() >= TEXTS && text != OTHERS {
            return self.number(OTHERS);
        }
        let number = u32::try_from(self.texts.len()).unwrap_or(u32::MAX);
        self.texts.push(text.to_owned());
        self.numbers.insert(text.to_owned(), number);
        number
    }

    /// Returns all texts, by their numbers.
    pub fn all(&self) -> &[String] {
        &self.texts
    }
}

/// Text in place of all texts without room.
const OTHERS: &str = "(others)";

/// Place of the fields of an item: the first byte, and the number of bytes.
pub type Range = (u32, u32);

/// A slice or an instant.
#[derive(Clone, Copy, Debug)]
pub struct Kept {
    /// Its track.
    pub track: Track,
    /// The time when it begins.
    pub from: u64,
    /// The time when it ends; `None` for an instant.
    pub to: Option<u64>,
    /// Number of its name.
    pub name: u32,
    /// Its fields.
    pub fields: Range,
}

impl Kept {
    /// Returns the length of a slice.
    pub fn length(&self) -> u64 {
        self.to.map_or(0, |to| to.saturating_sub(self.from))
    }
}

/// Appends a number.
fn put(out: &mut Vec<u8>, mut number: u64) {
    loop {
        let low = u8::try_from(number & 127).unwrap_or(0);
        number >>= 7;
        if number == 0 {
            out.push(low);
            return;
        }
        out.push(low | 128);
    }
}

/// Kind of a field in the page.
fn letter(field: &Field, format: &Format) -> char {
    match field.kind {
        Kind::Text if format.calls == Some(field.offset) => 's',
        Kind::Unsigned => 'u',
        Kind::Signed => 'i',
        Kind::Hex => 'x',
        _ => 't',
    }
}

/// Fields of records, and the texts in them.
#[derive(Debug, Default)]
pub struct Fields {
    bytes: Vec<u8>,
    texts: Texts,
    /// Calls, with the number of the caller and of the name. The first call, number 1, is at 0.
    calls: Vec<(u32, u32)>,
    numbers: BTreeMap<(u32, u32), u32>,
    formats: Vec<Json>,
    by_id: BTreeMap<u32, usize>,
    /// Number of records without room for their fields.
    pub left_out: u64,
}

impl Fields {
    /// Takes the fields of a record; names of calls become numbers of `names`.
    pub fn add(&mut self, event: &Event, format: &Format, names: &mut Texts) -> Range {
        if format.fields.is_empty() {
            return (0, 0);
        }
        if self.bytes.len() > FIELDS {
            self.left_out += 1;
            return (0, 0);
        }
        let index = match self.by_id.get(&format.id) {
            Some(known) => *known,
            None => {
                let fields = format.fields.iter();
                let fields = fields.map(|field| json!([field.name, letter(field, format)]));
                let fields = fields.collect::<Vec<_>>();
                self.formats
                    .push(json!({ "name": format.name, "fields": fields }));
                let index = self.formats.len() - 1;
                self.by_id.insert(format.id, index);
                index
            }
        };
        let from = self.bytes.len();
        put(&mut self.bytes, u64::try_from(index).unwrap_or(0));
        for field in &format.fields {
            let number = match letter(field, format) {
                's' => self.stack(field.bytes(&event.bytes), names),
                'i' => {
                    let number = signed(field.bytes(&event.bytes)).unwrap_or(0);
                    u64::from_ne_bytes(((number << 1) ^ (number >> 63)).to_ne_bytes())
                }
                't' => {
                    let text = Value::new(field, &event.bytes).to_string();
                    u64::from(self.texts.number(&text))
                }
                _ => unsigned(field.bytes(&event.bytes)).unwrap_or(0),
            };
            put(&mut self.bytes, number);
        }
        let at = |at: usize| u32::try_from(at).unwrap_or(0);
        (at(from), at(self.bytes.len() - from))
    }

    /// Returns the number of the innermost call of a stack, 0 if there is none.
    fn stack(&mut self, stack: &[u8], names: &mut Texts) -> u64 {
        let stack = String::from_utf8_lossy(stack);
        let calls = stack.split(BETWEEN).filter(|call| !call.is_empty());
        let mut at = 0;
        for name in calls.take(DEPTH) {
            let call = (at, names.number(name));
            at = match self.numbers.get(&call) {
                Some(known) => *known,
                None if self.calls.len() >= CALLS => break,
                None => {
                    self.calls.push(call);
                    let number = u32::try_from(self.calls.len()).unwrap_or(0);
                    self.numbers.insert(call, number);
                    number
                }
            };
        }
        u64::from(at)
    }

    fn get(&self, (from, size): Range) -> &[u8] {
        let at = |at: u32| usize::try_from(at).unwrap_or(usize::MAX);
        let from = at(from);
        self.bytes
            .get(from..from.saturating_add(at(size)))
            .unwrap_or_default()
    }

    /// Releases the fields of items that were dropped.
    pub fn keep(&mut self, items: &mut [Kept]) {
        let mut bytes = Vec::new();
        for item in items {
            let of = self.get(item.fields);
            let at = u32::try_from(bytes.len()).unwrap_or(0);
            bytes.extend_from_slice(of);
            item.fields = (at, item.fields.1);
        }
        self.bytes = bytes;
    }

    /// Returns the tables that the numbers refer to.
    pub fn json(&self) -> [(&'static str, Json); 3] {
        let parents: Vec<u32> = self.calls.iter().map(|(parent, _)| *parent).collect();
        let names: Vec<u32> = self.calls.iter().map(|(_, name)| *name).collect();
        let with_none = |list: Vec<u32>| [vec![0], list].concat();
        let stacks = json!({ "parent": with_none(parents), "name": with_none(names) });
        let texts = json!(self.texts.all());
        let formats = json!(self.formats);
        [("texts", texts), ("stacks", stacks), ("formats", formats)]
    }
}

/// Returns the stream of items, which are in the order of tracks and times, from the time `first`.
pub fn stream(items: &[Kept], fields: &Fields, first: u64) -> Vec<u8> {
    let mut out = Vec::new();
    let mut before: Option<&Kept> = None;
    for item in items {
        let last = before.filter(|last| last.track == item.track);
        let since = last.map_or(first, |last| last.from);
        put(&mut out, item.from.saturating_sub(since));
        let length = item.to.map(|_| item.length().saturating_add(1));
        put(&mut out, length.unwrap_or(0));
        put(&mut out, u64::from(item.name));
        let of = fields.get(item.fields);
        put(&mut out, u64::try_from(of.len()).unwrap_or(0));
        out.extend_from_slice(of);
        before = Some(item);
    }
    out
}

/// Returns the bytes in the alphabet of base64.
pub fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let mut three = [0; 3];
        for (to, from) in three.iter_mut().zip(chunk) {
            *to = *from;
        }
        let [a, b, c] = three.map(u32::from);
        let bits = a << 16 | b << 8 | c;
        for place in 0..4 {
            let index = usize::try_from(bits >> (18 - 6 * place) & 63).unwrap_or(0);
            let digit = DIGITS.get(index).copied().unwrap_or(b'A');
            let is_used = place <= chunk.len();
            text.push(if is_used { char::from(digit) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_digits() {
        for (number, bytes) in [
            (0, vec![0]),
            (127, vec![127]),
            (128, vec![128, 1]),
            (u64::MAX, [vec![255; 9], vec![1]].concat()),
        ] {
            let mut out = Vec::new();
            put(&mut out, number);
            assert_eq!(out, bytes);
        }
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }

    #[test]
    fn texts_share_a_number_beyond_the_limit() {
        let mut texts = Texts::default();
        for i in 0..TEXTS + 10 {
            texts.number(&i.to_string());
        }
        assert_eq!(texts.all().len(), TEXTS + 1);
        assert_eq!(texts.number("new"), texts.number("another"));
        assert_eq!(texts.number("5"), 5);
        let long = "\u{fc}".repeat(CHARS + 5);
        let mut texts = Texts::default();
        texts.number(&long);
        assert_eq!(texts.all()[0].chars().count(), CHARS);
    }
}
