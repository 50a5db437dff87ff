// SPDX-License-Identifier: GPL-2.0

//! The file `metadata` of a Common Trace Format 1.8 trace: a text that describes the layout of the
//! streams.

#![deny(unsafe_code)]

use std::fmt;
use std::fmt::Write as _;

use uuid::Uuid;

use super::field::Field;
use super::field::Kind;
use super::format::Format;

/// Properties of a whole trace.
pub struct Trace<'a> {
    /// Its identity, which is also in each packet.
    pub uuid: Uuid,
    /// From the epoch to the zero of the clock, in nanoseconds, if known.
    pub clock_offset: Option<u64>,
    /// Names and values to keep with the trace.
    pub env: &'a [(&'static str, EnvValue)],
}

/// A value of the environment.
pub enum EnvValue {
    /// Text.
    Text(String),
    /// A number.
    Number(u64),
}

/// The text, with an event class for each of `formats`. [`super::ctf`] writes what it describes.
pub fn metadata<'a>(trace: &Trace<'_>, formats: impl IntoIterator<Item = &'a Format>) -> String {
    let order = if cfg!(target_endian = "little") {
        "le"
    } else {
        "be"
    };
    let mut text = format!(
        "\
/* CTF 1.8 */

typealias integer {{ size = 8; align = 8; signed = false; }} := uint8_t;
typealias integer {{ size = 32; align = 8; signed = false; }} := uint32_t;
typealias integer {{ size = 64; align = 8; signed = false; }} := uint64_t;

trace {{
	major = 1;
	minor = 8;
	uuid = \"{uuid}\";
	byte_order = {order};
	packet.header := struct {{
		uint32_t magic;
		uint8_t uuid[16];
		uint32_t stream_id;
	}};
}};

env {{
",
        uuid = trace.uuid,
    );
    for (name, value) in trace.env {
        // Writing to a String does not fail, here and below.
        let _ = match value {
            EnvValue::Text(value) => writeln!(text, "\t{name} = {};", Quoted(value)),
            EnvValue::Number(value) => writeln!(text, "\t{name} = {value};"),
        };
    }
    text.push_str(
        "\
};

clock {
	name = monotonic;
	description = \"CLOCK_MONOTONIC\";
	freq = 1000000000;
",
    );
    if let Some(offset) = trace.clock_offset {
        let (seconds, nanos) = (offset / 1_000_000_000, offset % 1_000_000_000);
        let _ = writeln!(
            text,
            "\toffset_s = {seconds};\n\toffset = {nanos};\n\tabsolute = true;"
        );
    }
    text.push_str(
        "\
};

typealias integer {
	size = 64; align = 8; signed = false;
	map = clock.monotonic.value;
} := time_t;

stream {
	id = 0;
	packet.context := struct {
		time_t timestamp_begin;
		time_t timestamp_end;
		uint64_t content_size;
		uint64_t packet_size;
		uint64_t packet_seq_num;
		uint64_t events_discarded;
		uint32_t cpu_id;
	};
	event.header := struct {
		uint32_t id;
		time_t timestamp;
	};
};
",
    );
    for format in formats {
        event(&mut text, format);
    }
    text
}

fn event(text: &mut String, format: &Format) {
    let (name, id) = (Quoted(&format.name), format.id);
    let _ = write!(
        text,
        "\nevent {{\n\tname = {name};\n\tid = {id};\n\tstream_id = 0;\n\tfields := struct {{\n"
    );
    for field in &format.fields {
        let _ = member(text, field, format);
    }
    text.push_str("\t};\n};\n");
}

/// A member of the fields of an event.
fn member(text: &mut String, field: &Field, format: &Format) -> fmt::Result {
    let name = identifier(&field.name);
    let size = field.size.unwrap_or(1);
    match (field.kind, field.size) {
        (Kind::Unsigned | Kind::Signed, _) => {
            writeln!(text, "\t\t{} {name};", integer(size, field.kind))
        }
        (Kind::Hex, _) => writeln!(text, "\t\t{} {name};", integer(size, Kind::Hex)),
        (Kind::Text, _) => writeln!(text, "\t\tstring {{ encoding = UTF8; }} {name};"),
        (Kind::Array { element, signed }, _) => {
            let kind = if signed { Kind::Signed } else { Kind::Unsigned };
            let count = size.checked_div(element).unwrap_or(0);
            writeln!(text, "\t\t{} {name}[{count}];", integer(element, kind))
        }
        (Kind::Bytes, Some(size)) => {
            writeln!(text, "\t\t{} {name}[{size}];", integer(1, Kind::Hex))
        }
        (Kind::Bytes, None) => {
            let length = identifier(&format.length_name(field));
            writeln!(text, "\t\tuint32_t {length};")?;
            writeln!(text, "\t\t{} {name}[{length}];", integer(1, Kind::Hex))
        }
    }
}

fn integer(bytes: usize, kind: Kind) -> String {
    let (size, signed) = (bytes * 8, kind == Kind::Signed);
    let base = if kind == Kind::Hex { " base = 16;" } else { "" };
    format!("integer {{ size = {size}; align = 8; signed = {signed};{base} }}")
}

/// The name of a field, with an underscore so that it is not a keyword. Readers remove one
/// underscore.
fn identifier(name: &str) -> String {
    match name {
        "Bool" | "Complex" | "Imaginary" => format!("__{name}"),
        _ => format!("_{name}"),
    }
}

/// A string literal.
struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for c in self.0.chars() {
            match c {
                '"' | '\\' => write!(f, "\\{c}")?,
                // Not all readers understand any one form of these.
                _ if c.is_control() => f.write_char('?')?,
                _ => f.write_char(c)?,
            }
        }
        f.write_char('"')
    }
}
