// SPDX-License-Identifier: GPL-2.0

//! The JSON of Chrome's tracing, which many viewers read.

#![deny(unsafe_code)]

use std::fmt;
use std::io;
use std::io::Write;

use serde_json::Map;
use serde_json::Value as Json;
use serde_json::json;

use super::tracks::Item;
use super::tracks::Span;
use super::tracks::Track;
use super::tracks::Tracks;
use crate::merge::format::Format;
use crate::merge::run::Counts;
use crate::merge::sink::Sink;
use crate::merge::sink::WriteError;
use crate::merge::source::Event;
use crate::merge::value::Value;

/// Writes `{"traceEvents": [...]}`, with a line for each event.
pub struct Chrome<W: Write> {
    out: W,
    name: String,
    tracks: Tracks,
    started: bool,
}

impl<W: Write> Chrome<W> {
    /// Writes to `out`, which is called `name`.
    pub fn new(out: W, name: String) -> Self {
        Self {
            out,
            name,
            tracks: Tracks::default(),
            started: false,
        }
    }
}

/// Nanoseconds as microseconds, which times are in. A `f64` has too few digits.
struct Micros(u64);

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1000, self.0 % 1000)
    }
}

/// The fields of a record.
fn fields(event: &Event, format: &Format) -> Map<String, Json> {
    let fields = format.fields.iter().filter_map(|field| {
        let value = serde_json::to_value(Value::new(field, &event.bytes)).ok()?;
        Some((field.name.clone(), value))
    });
    fields.collect()
}

fn write(
    out: &mut impl Write,
    started: &mut bool,
    item: &Item<'_>,
    args: Map<String, Json>,
) -> io::Result<()> {
    // CPUs are the threads of process 0; a thread is drawn as one of process 1.
    let (pid, tid) = match item.track {
        Track::Cpu(cpu) => (0, i64::from(cpu)),
        Track::Thread(thread) => (1, thread),
    };
    let before = if *started {
        ",\n"
    } else {
        "{\"traceEvents\":[\n"
    };
    *started = true;
    let (name, args) = (Json::from(item.name), Json::from(args));
    write!(
        out,
        "{before}{{\"name\":{name},\"pid\":{pid},\"tid\":{tid},"
    )?;
    match item.span {
        Span::Instant(at) => {
            let at = Micros(at);
            write!(out, "\"ph\":\"i\",\"s\":\"t\",\"ts\":{at}")?;
        }
        Span::Slice(from, to) => {
            let (at, length) = (Micros(from), Micros(to.saturating_sub(from)));
            write!(out, "\"ph\":\"X\",\"ts\":{at},\"dur\":{length}")?;
        }
    }
    write!(out, ",\"args\":{args}}}")
}

impl<W: Write> Sink for Chrome<W> {
    fn event(&mut self, event: &Event, format: &Format) -> Result<(), WriteError> {
        let (out, started) = (&mut self.out, &mut self.started);
        let written = self.tracks.add(event, format, |item| {
            let args = match item.has_fields {
                true => fields(event, format),
                false => Map::new(),
            };
            write(out, started, &item, args)
        });
        written.map_err(|source| WriteError {
            to: self.name.clone(),
            source,
        })
    }

    fn end(&mut self, counts: &Counts) -> Result<(), WriteError> {
        let (out, started) = (&mut self.out, &mut self.started);
        let at = counts.last_ns.unwrap_or(0);
        let open = self
            .tracks
            .finish(at, |item| write(out, started, &item, Map::new()));
        let begun = if self.started {
            ""
        } else {
            "{\"traceEvents\":["
        };
        let end = json!({ "summary": counts });
        open.and_then(|()| {
            writeln!(
                self.out,
                "{begun}\n],\"displayTimeUnit\":\"ns\",\"otherData\":{end}}}"
            )
        })
        .and_then(|()| self.out.flush())
        .map_err(|source| WriteError {
            to: self.name.clone(),
            source,
        })
    }
}
