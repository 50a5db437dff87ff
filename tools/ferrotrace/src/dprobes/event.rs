// SPDX-License-Identifier: GPL-2.0

//! What a run of a program has left: a record, decoded by what it says of itself.

#![deny(unsafe_code)]

use std::fmt::Write;

use ferro_dprobes_core::Entry;
use ferro_dprobes_core::Exception;
use ferro_dprobes_core::Fault;
use ferro_dprobes_core::Field;
use ferro_dprobes_core::RecordRef;
use ferro_dprobes_core::Words;
use serde_json::Map;
use serde_json::Value;
use serde_json::json;

use crate::merge::value;

/// The name and the type of these records in a channel's description.
pub const NAME: &str = "dprobe";

/// The type.
pub const TYPE: u16 = 1;

/// A record as text, after its CPU and its time: numbers, the chosen fields, what was logged. `None` if it is none.
pub fn text(data: &[u8], place: Option<&str>) -> Option<String> {
    let record = RecordRef::decode(data)?;
    let mut text = format!("{}.{}", record.header.major, record.header.minor);
    let place = place.map(|place| format!(" {place}")).unwrap_or_default();
    text.push_str(&place);
    // Writing to a string does not fail.
    if let Some(name) = procname(&record) {
        let _ = write!(text, " {}", name.escape_debug());
    }
    let hexadecimal = |field| match field {
        Field::Pid | Field::Uid | Field::Tsc => false,
        Field::ProcName | Field::SsEsp | Field::CsEip | Field::Psw | Field::Upsw => true,
    };
    for (field, name, number) in numbers(&record) {
        let _ = match hexadecimal(field) {
            true => write!(text, " {name}={number:#x}"),
            false => write!(text, " {name}={number}"),
        };
    }
    let mut separator = ":";
    for entry in record.entries() {
        let entry = match entry {
            Ok(entry) => entry_text(entry),
            Err(rest) => format!("not understood [{}]", hex(rest)),
        };
        let _ = write!(text, "{separator} {entry}");
        separator = ",";
    }
    Some(text)
}

/// A record as JSON, without its CPU and its time.
pub fn json(data: &[u8]) -> Option<Map<String, Value>> {
    let record = RecordRef::decode(data)?;
    let mut map = Map::new();
    map.insert("major".to_owned(), record.header.major.into());
    map.insert("minor".to_owned(), record.header.minor.into());
    if let Some(name) = procname(&record) {
        map.insert("comm".to_owned(), name.into());
    }
    for (_, name, number) in numbers(&record) {
        map.insert(name.to_owned(), number.into());
    }
    if let Some(exception) = Exception::from_bit(record.header.exception) {
        map.insert("ended_by".to_owned(), exception.text().into());
    }
    let entries = record.entries().map(|entry| match entry {
        Ok(entry) => entry_json(entry),
        Err(rest) => json!({"unknown": hex(rest)}),
    });
    map.insert("log".to_owned(), entries.collect());
    Some(map)
}

/// The major and the minor number of a record.
pub fn ids(data: &[u8]) -> Option<(u32, u32)> {
    let record = RecordRef::decode(data)?;
    Some((record.header.major, record.header.minor))
}

fn procname(record: &RecordRef<'_>) -> Option<String> {
    let bytes = record.field(Field::ProcName)?;
    Some(value::text(bytes).into_owned())
}

/// The fields that are numbers.
fn numbers(record: &RecordRef<'_>) -> Vec<(Field, &'static str, u64)> {
    let mut all = Vec::new();
    for (field, names, width) in [
        (Field::Pid, &["pid", "tid"][..], 4),
        (Field::Uid, &["uid"], 8),
        (Field::SsEsp, &["ss", "sp"], 8),
        (Field::CsEip, &["cs", "ip"], 8),
        (Field::Psw, &["flags"], 8),
        (Field::Upsw, &["user_flags"], 8),
        (Field::Tsc, &["tsc"], 8),
    ] {
        let pieces = record.field(field).unwrap_or_default().chunks_exact(width);
        for (name, piece) in names.iter().zip(pieces) {
            let mut bytes = [0; 8];
            for (to, from) in bytes.iter_mut().zip(piece) {
                *to = *from;
            }
            all.push((field, *name, u64::from_le_bytes(bytes)));
        }
    }
    all
}

fn hex(bytes: &[u8]) -> String {
    let bytes: Vec<_> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    bytes.join(" ")
}

/// A string as it is in a line: what cannot be printed is escaped.
fn quoted(bytes: &[u8]) -> String {
    format!("{:?}", String::from_utf8_lossy(bytes))
}

fn list(words: Words<'_>) -> String {
    let words: Vec<_> = words.iter().map(|word| format!("{word:#x}")).collect();
    words.join(" ")
}

/// `lv 3 = 1 2 3`: from the third on.
fn variables(name: &str, first: u32, words: Words<'_>) -> String {
    let words: Vec<_> = words.iter().map(|word| word.to_string()).collect();
    format!("{name} {first} = {}", words.join(" "))
}

fn entry_text(entry: Entry<'_>) -> String {
    match entry {
        Entry::Memory(bytes) => format!("[{}]", hex(bytes)),
        Entry::Text(bytes) => quoted(bytes),
        Entry::CutText(bytes) => quoted(bytes) + "...",
        Entry::NotThere(address) => format!("not there {address:#x}"),
        Entry::Words(words) => list(words),
        Entry::Calls(words) => {
            let words: Vec<_> = words.iter().map(|word| word.to_string()).collect();
            format!("at command {}", words.join(", called at "))
        }
        Entry::Locals(first, words) => variables("lv", first, words),
        Entry::Globals(first, words) => variables("gv", first, words),
        Entry::Top(word) => format!("top {word:#x}"),
        Entry::Exception(fault, at) => {
            let Fault {
                exception,
                argument,
            } = fault;
            format!("{} ({argument:#x}) at command {at}", exception.text())
        }
    }
}

fn entry_json(entry: Entry<'_>) -> Value {
    let words = |words: Words<'_>| words.iter().collect::<Vec<_>>();
    match entry {
        Entry::Memory(bytes) => json!({ "memory": hex(bytes) }),
        Entry::Text(bytes) => json!({ "text": String::from_utf8_lossy(bytes) }),
        Entry::CutText(bytes) => json!({ "text": String::from_utf8_lossy(bytes), "cut": true }),
        Entry::NotThere(address) => json!({ "not_there": address }),
        Entry::Words(list) => json!({ "words": words(list) }),
        Entry::Calls(list) => json!({ "calls": words(list) }),
        Entry::Locals(first, list) => json!({ "lv": first, "values": words(list) }),
        Entry::Globals(first, list) => json!({ "gv": first, "values": words(list) }),
        Entry::Top(word) => json!({ "top": word }),
        Entry::Exception(fault, at) => json!({
            "exception": fault.exception.text(),
            "bit": fault.exception.bit(),
            "argument": fault.argument,
            "command": at,
        }),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use ferro_dprobes_core::RecordHeader;

    fn entry(token: u8, data: &[u8]) -> Vec<u8> {
        let mut bytes = vec![token];
        bytes.extend(u16::try_from(data.len()).unwrap().to_le_bytes());
        bytes.extend(data);
        bytes
    }

    /// A record of point 1.2, with a name and a process.
    pub fn record() -> Vec<u8> {
        let header = RecordHeader {
            major: 1,
            minor: 2,
            fields: Field::ProcName.bit() | Field::Pid.bit() | Field::CsEip.bit(),
            exception: Exception::Address.bit(),
            cpu: 3,
        };
        let mut bytes = header.to_bytes().to_vec();
        let mut name = [0; 16];
        name[..4].copy_from_slice(b"bash");
        bytes.extend(name);
        bytes.extend(7u32.to_le_bytes());
        bytes.extend(8u32.to_le_bytes());
        bytes.extend(0x10u64.to_le_bytes());
        bytes.extend(0xffff_8000u64.to_le_bytes());
        bytes.extend(entry(0, &[1, 0xab]));
        bytes.extend(entry(1, b"a\"b"));
        bytes.extend(entry(8, b"cut"));
        bytes.extend(entry(
            2,
            &[5u64.to_le_bytes(), 16u64.to_le_bytes()].concat(),
        ));
        let mut locals = 3u32.to_le_bytes().to_vec();
        locals.extend(9u64.to_le_bytes());
        bytes.extend(entry(4, &locals));
        let mut fault = Exception::Address.bit().to_le_bytes().to_vec();
        fault.extend(4u32.to_le_bytes());
        fault.extend(0x10u64.to_le_bytes());
        bytes.extend(entry(7, &fault));
        bytes
    }

    #[test]
    fn as_text() {
        assert_eq!(
            text(&record(), Some("f+0x0")).unwrap(),
            "1.2 f+0x0 bash pid=7 tid=8 cs=0x10 ip=0xffff8000: [01 ab], \"a\\\"b\", \"cut\"..., 0x5 0x10, lv 3 = 9, \
             memory is not there (0x10) at command 4"
        );
        assert_eq!(text(&[0; 10], None), None);
        let mut cut = record();
        cut.pop();
        assert!(
            text(&cut, None)
                .unwrap()
                .ends_with("not understood [07 0e 00 01 00 04 00 00 00 10 00 00 00 00 00 00]")
        );
    }

    #[test]
    fn as_json() {
        let expected = json!({
            "major": 1, "minor": 2, "comm": "bash", "pid": 7, "tid": 8, "cs": 16, "ip": 0xffff_8000u64,
            "ended_by": "memory is not there",
            "log": [
                {"memory": "01 ab"},
                {"text": "a\"b"},
                {"text": "cut", "cut": true},
                {"words": [5, 16]},
                {"lv": 3, "values": [9]},
                {"exception": "memory is not there", "bit": 1, "argument": 16, "command": 4},
            ],
        });
        assert_eq!(Value::Object(json(&record()).unwrap()), expected);
    }
}
