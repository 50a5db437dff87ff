// SPDX-License-Identifier: GPL-2.0

//! The file `metadata` of a Common Trace Format 2 trace: a sequence of JSON objects (RFC 7464) that describes the layout of
//! the streams, which is the same as that of [`super::tsdl`].

#![deny(unsafe_code)]

use serde_json::Map;
use serde_json::Value as Json;
use serde_json::json;

use super::field::Field;
use super::field::Kind;
use super::format::Format;
use super::tsdl::EnvValue;
use super::tsdl::Trace;

/// First character of each object.
const SEPARATOR: char = '\u{1e}';

/// The text, with an event record class for each of `formats`.
pub fn metadata<'a>(trace: &Trace<'_>, formats: impl IntoIterator<Item = &'a Format>) -> String {
    let preamble = json!({ "type": "preamble", "version": 2, "uuid": trace.uuid.as_bytes() });
    let env = trace.env.iter().map(|(name, value)| {
        let value = match value {
            EnvValue::Text(text) => json!(text),
            EnvValue::Number(number) => json!(number),
        };
        ((*name).to_owned(), value)
    });
    let env: Map<String, Json> = env.collect();
    let magic = unsigned(4, &["packet-magic-number"]);
    let uuid = json!({
        "type": "static-length-blob",
        "length": 16,
        "roles": ["metadata-stream-uuid"],
    });
    let header = [
        ("magic", magic),
        ("uuid", uuid),
        ("stream_id", unsigned(4, &["data-stream-class-id"])),
    ];
    let class = json!({
        "type": "trace-class",
        "environment": env,
        "packet-header-field-class": structure(header),
    });
    let mut clock = json!({
        "type": "clock-class",
        "id": "monotonic",
        "name": "monotonic",
        "description": "CLOCK_MONOTONIC",
        "frequency": 1_000_000_000,
    });
    if let (Some(offset), Some(clock)) = (trace.clock_offset, clock.as_object_mut()) {
        let (seconds, cycles) = (offset / 1_000_000_000, offset % 1_000_000_000);
        clock.insert("origin".to_owned(), json!("unix-epoch"));
        let offset = json!({ "seconds": seconds, "cycles": cycles });
        clock.insert("offset-from-origin".to_owned(), offset);
    }
    let context = [
        ("timestamp_begin", unsigned(8, &["default-clock-timestamp"])),
        (
            "timestamp_end",
            unsigned(8, &["packet-end-default-clock-timestamp"]),
        ),
        ("content_size", unsigned(8, &["packet-content-length"])),
        ("packet_size", unsigned(8, &["packet-total-length"])),
        ("packet_seq_num", unsigned(8, &["packet-sequence-number"])),
        (
            "events_discarded",
            unsigned(8, &["discarded-event-record-counter-snapshot"]),
        ),
        ("cpu_id", unsigned(4, &[])),
    ];
    let event = [
        ("id", unsigned(4, &["event-record-class-id"])),
        ("timestamp", unsigned(8, &["default-clock-timestamp"])),
    ];
    let stream = json!({
        "type": "data-stream-class",
        "id": 0,
        "default-clock-class-id": "monotonic",
        "packet-context-field-class": structure(context),
        "event-record-header-field-class": structure(event),
    });
    let events = formats.into_iter().map(event_class);
    let fragments = [preamble, class, clock, stream].into_iter().chain(events);
    fragments
        .map(|fragment| format!("{SEPARATOR}{fragment}\n"))
        .collect()
}

fn event_class(format: &Format) -> Json {
    let members = format
        .fields
        .iter()
        .flat_map(|field| members(field, format));
    json!({
        "type": "event-record-class",
        "id": format.id,
        "data-stream-class-id": 0,
        "name": format.name,
        "payload-field-class": structure(members),
    })
}

/// The members for a field: itself, after its length if that differs from record to record.
fn members(field: &Field, format: &Format) -> Vec<(String, Json)> {
    let size = field.size.unwrap_or(1);
    let class = match (field.kind, field.size) {
        (Kind::Unsigned | Kind::Signed | Kind::Hex, _) => integer(size, field.kind),
        (Kind::Text, _) => json!({ "type": "null-terminated-string", "encoding": "utf-8" }),
        (Kind::Array { element, signed }, _) => {
            let kind = if signed { Kind::Signed } else { Kind::Unsigned };
            let count = size.checked_div(element).unwrap_or(0);
            array(count, integer(element, kind))
        }
        (Kind::Bytes, Some(size)) => array(size, integer(1, Kind::Hex)),
        (Kind::Bytes, None) => {
            let length = format.length_name(field);
            let class = json!({
                "type": "dynamic-length-array",
                "element-field-class": integer(1, Kind::Hex),
                "length-field-location": { "origin": "event-record-payload", "path": [length] },
            });
            let length = (length, unsigned(4, &[]));
            return vec![length, (field.name.clone(), class)];
        }
    };
    vec![(field.name.clone(), class)]
}

fn structure(members: impl IntoIterator<Item = (impl Into<String>, Json)>) -> Json {
    let members = members
        .into_iter()
        .map(|(name, class)| json!({ "name": name.into(), "field-class": class }));
    json!({ "type": "structure", "member-classes": members.collect::<Vec<_>>() })
}

fn array(length: usize, element: Json) -> Json {
    json!({ "type": "static-length-array", "length": length, "element-field-class": element })
}

fn unsigned(bytes: usize, roles: &[&str]) -> Json {
    let mut class = integer(bytes, Kind::Unsigned);
    if let (false, Some(class)) = (roles.is_empty(), class.as_object_mut()) {
        class.insert("roles".to_owned(), json!(roles));
    }
    class
}

fn integer(bytes: usize, kind: Kind) -> Json {
    let order = match cfg!(target_endian = "little") {
        true => "little-endian",
        false => "big-endian",
    };
    let ty = match kind {
        Kind::Signed => "fixed-length-signed-integer",
        _ => "fixed-length-unsigned-integer",
    };
    let base = if kind == Kind::Hex { 16 } else { 10 };
    json!({
        "type": ty,
        "length": bytes * 8,
        "byte-order": order,
        "alignment": 8,
        "preferred-display-base": base,
    })
}
