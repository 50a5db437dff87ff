// SPDX-License-Identifier: GPL-2.0

//! One line for each record, as text or as a JSON object, and the counts at the end.

#![deny(unsafe_code)]

use std::fmt;
use std::io;
use std::io::Write;

use serde::Serialize;
use serde::Serializer;
use serde_json::json;

use super::format::Format;
use super::run::Counts;
use super::sink::Sink;
use super::sink::WriteError;
use super::source::Event;
use super::value::Value;
use crate::clock::Seconds;
use crate::clock::Wall;
use crate::dprobes::event as dprobe;

/// Writes lines.
#[derive(Debug)]
pub struct Lines<W: Write> {
    out: W,
    name: String,
    json: bool,
    wall: Option<u64>,
}

impl<W: Write> Lines<W> {
    /// Writes to `out`, which is called `name`: one JSON object on each line, or text. With `wall`, the nanoseconds from the
    /// epoch to the zero of the clock, the date and time of each record is written, instead of its time or, as JSON, beside
    /// it.
    pub fn new(out: W, name: String, json: bool, wall: Option<u64>) -> Self {
        Self {
            out,
            name,
            json,
            wall,
        }
    }

    fn failed(&self, source: io::Error) -> WriteError {
        let to = self.name.clone();
        WriteError { to, source }
    }
}

impl<W: Write> Sink for Lines<W> {
    fn event(&mut self, event: &Event, format: &Format) -> Result<(), WriteError> {
        let out = &mut self.out;
        let wall = self
            .wall
            .map(|offset| Wall(event.time.saturating_add(offset)));
        let line = if self.json {
            let object = Object {
                name: &format.name,
                cpu: event.cpu,
                time: event.time,
                wall: wall.map(|wall| wall.to_string()),
                fields: Fields(event, format),
            };
            // The values can all be written, so that only the output can fail.
            serde_json::to_writer(&mut *out, &object).map_err(io::Error::from)
        } else {
            match wall {
                Some(wall) => text_line(out, event, format, &wall),
                None => text_line(out, event, format, &Seconds(event.time)),
            }
        };
        line.and_then(|()| out.write_all(b"\n"))
            .map_err(|error| self.failed(error))
    }

    fn end(&mut self, counts: &Counts) -> Result<(), WriteError> {
        let end = if self.json {
            format!("{}\n", json!({ "summary": counts }))
        } else {
            counts.to_string()
        };
        let written = self.out.write_all(end.as_bytes());
        written
            .and_then(|()| self.out.flush())
            .map_err(|error| self.failed(error))
    }
}

/// Returns true for a record of a probe program, which describes its own data.
fn is_dprobe(event: &Event, format: &Format) -> bool {
    event.ty == dprobe::TYPE && format.name == dprobe::NAME
}

/// `[cpu] seconds.nanos name: field=value ...`
fn text_line(
    out: &mut impl Write,
    event: &Event,
    format: &Format,
    time: &dyn fmt::Display,
) -> io::Result<()> {
    let (cpu, name) = (event.cpu, &format.name);
    let decoded = is_dprobe(event, format).then(|| dprobe::text(&event.bytes, None));
    if let Some(text) = decoded.flatten() {
        return write!(out, "[{cpu:03}] {time} {name} {text}");
    }
    write!(out, "[{cpu:03}] {time} {name}:")?;
    for field in &format.fields {
        let value = Value::new(field, &event.bytes);
        write!(out, " {}={value}", field.name)?;
    }
    Ok(())
}

/// A line of JSON.
#[derive(Serialize)]
struct Object<'a> {
    name: &'a str,
    cpu: u32,
    time: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    wall: Option<String>,
    fields: Fields<'a>,
}

struct Fields<'a>(&'a Event, &'a Format);

impl Serialize for Fields<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Self(event, format) = self;
        let decoded = is_dprobe(event, format).then(|| dprobe::json(&event.bytes));
        if let Some(map) = decoded.flatten() {
            return map.serialize(to);
        }
        let fields = format.fields.iter();
        to.collect_map(fields.map(|field| (&field.name, Value::new(field, &event.bytes))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records of probe programs are decoded by what they say of themselves.
    #[test]
    fn records_of_probe_programs() {
        let mut format = Format::raw(dprobe::TYPE);
        format.name = dprobe::NAME.to_owned();
        let event = Event {
            time: 5,
            timed: true,
            cpu: 3,
            ty: dprobe::TYPE,
            bytes: dprobe::tests::record(),
        };
        let mut line = Vec::new();
        text_line(&mut line, &event, &format, &Seconds(event.time)).unwrap();
        let line = String::from_utf8(line).unwrap();
        assert!(
            line.starts_with("[003] 0.000000005 dprobe 1.2 bash pid=7 "),
            "{line}"
        );
        let json = serde_json::to_value(Fields(&event, &format)).unwrap();
        assert_eq!(json["log"][3]["words"][1], 16);
        let other = Event { ty: 2, ..event };
        let mut line = Vec::new();
        text_line(&mut line, &other, &format, &Seconds(other.time)).unwrap();
        assert!(line.starts_with(b"[003] 0.000000005 dprobe: "));
    }
}
