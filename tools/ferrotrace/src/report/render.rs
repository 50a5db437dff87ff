// SPDX-License-Identifier: GPL-2.0

//! `ferrotrace relay report`: one line a record, and the counts.

#![deny(unsafe_code)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::io::Write;

use serde::Serialize;
use serde_json::Map;
use serde_json::Value;
use serde_json::json;

use super::format::Field;
use super::format::Format;
use super::format::Kind;
use super::format::signed;
use super::format::unsigned;
use super::merge::Merge;
use super::merge::WINDOW;
use super::recording::Recording;
use super::recording::RecordingError;

/// Why a report ended early.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The recording cannot be read.
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// A file of it cannot be read to its end.
    #[error("cannot read the recording")]
    Read(#[source] io::Error),
    /// The report cannot be written; the reader may have gone.
    #[error("cannot write the report")]
    Write(#[source] io::Error),
}

/// A file that ends inside a record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Truncated {
    /// The file.
    pub file: String,
    /// Bytes of the unfinished record.
    pub bytes: usize,
}

/// The counts of a report.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Records of each CPU.
    pub cpus: BTreeMap<u32, u64>,
    /// Records of all.
    pub total: u64,
    /// The earliest and the latest time, in nanoseconds.
    pub first_ns: Option<u64>,
    /// The latest time.
    pub last_ns: Option<u64>,
    /// Records that are earlier than one before them.
    pub out_of_order: u64,
    /// Files that end inside a record.
    pub truncated: Vec<Truncated>,
    /// Sub-buffers lost while it was recorded.
    pub lost_subbufs: u64,
    /// Records that the kernel dropped meanwhile, if it counts them.
    pub dropped: Option<u64>,
}

/// How a report looks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Style {
    /// Show only that many records; count all.
    pub limit: Option<u64>,
    /// One JSON object a line.
    pub json: bool,
}

/// Writes the report of a recording.
pub fn report(
    recording: &Recording,
    style: Style,
    out: &mut impl Write,
) -> Result<Counts, ReportError> {
    let format = &recording.format;
    let mut merge = Merge::new(
        recording.readers()?,
        format.record_size,
        WINDOW,
        |record: &[u8]| format.time(record),
    )
    .map_err(ReportError::Read)?;

    let mut counts = Counts::default();
    for record in &mut merge {
        let record = record.map_err(ReportError::Read)?;
        let of_file = recording.files.get(record.file).map(|(cpu, _)| cpu.0);
        let cpu = format.cpu(&record.bytes).or(of_file).unwrap_or_default();
        if style.limit.is_none_or(|limit| counts.total < limit) {
            let line = if style.json {
                json_line(format, cpu, record.time, &record.bytes)
            } else {
                text_line(format, cpu, record.time, &record.bytes)
            };
            writeln!(out, "{line}").map_err(ReportError::Write)?;
        }
        *counts.cpus.entry(cpu).or_default() += 1;
        counts.total += 1;
        let (first, last) = (counts.first_ns, counts.last_ns);
        counts.first_ns = Some(first.map_or(record.time, |first| first.min(record.time)));
        counts.last_ns = Some(last.map_or(record.time, |last| last.max(record.time)));
    }
    counts.out_of_order = merge.late();
    counts.truncated = merge
        .truncated()
        .filter_map(|(file, bytes)| {
            let (_, path) = recording.files.get(file)?;
            let file = path.file_name()?.to_string_lossy().into_owned();
            Some(Truncated { file, bytes })
        })
        .collect();
    for cpu in &recording.metadata.cpus {
        counts.lost_subbufs = counts.lost_subbufs.saturating_add(cpu.tally.lost_subbufs);
    }
    counts.dropped = recording.metadata.dropped;

    let end = if style.json {
        format!("{}\n", json!({ "summary": counts }))
    } else {
        text_counts(&counts)
    };
    out.write_all(end.as_bytes())
        .and_then(|()| out.flush())
        .map_err(ReportError::Write)?;
    Ok(counts)
}

/// Nanoseconds as seconds.
fn seconds(time: u64) -> String {
    format!("{}.{:09}", time / 1_000_000_000, time % 1_000_000_000)
}

/// `[cpu] seconds.nanos name: field=value ...`
fn text_line(format: &Format, cpu: u32, time: u64, record: &[u8]) -> String {
    let mut line = format!("[{cpu:03}] {} {}:", seconds(time), format.name);
    for field in format.shown() {
        // Writing to a String does not fail.
        let _ = write!(line, " {}={}", field.name, text_value(field, record));
    }
    line
}

fn text_value(field: &Field, record: &[u8]) -> String {
    match value(field, record) {
        Value::String(text) => text,
        Value::Array(values) => {
            let values: Vec<_> = values.iter().map(Value::to_string).collect();
            format!("{{{}}}", values.join(","))
        }
        other => other.to_string(),
    }
}

fn json_line(format: &Format, cpu: u32, time: u64, record: &[u8]) -> String {
    let fields: Map<_, _> = format
        .shown()
        .map(|field| (field.name.clone(), value(field, record)))
        .collect();
    json!({ "name": format.name, "cpu": cpu, "time": time, "fields": fields }).to_string()
}

fn number(bytes: &[u8], negative: bool) -> Value {
    if negative {
        json!(signed(bytes))
    } else {
        json!(unsigned(bytes))
    }
}

fn value(field: &Field, record: &[u8]) -> Value {
    let bytes = field.bytes(record);
    match field.kind {
        Kind::Unsigned => number(bytes, false),
        Kind::Signed => number(bytes, true),
        Kind::Hex => Value::String(format!("{:#x}", unsigned(bytes).unwrap_or_default())),
        Kind::Text => Value::String(text(bytes)),
        Kind::Array { element, signed } => bytes
            .chunks_exact(element.max(1))
            .map(|bytes| number(bytes, signed))
            .collect(),
        Kind::Bytes => {
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            Value::String(hex)
        }
    }
}

/// Characters up to the first NUL, without anything that a terminal would act on.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0);
    let bytes = bytes.get(..end.unwrap_or(bytes.len())).unwrap_or_default();
    let mut text = String::new();
    for c in String::from_utf8_lossy(bytes).chars() {
        if c.is_control() {
            text.extend(c.escape_default());
        } else {
            text.push(c);
        }
    }
    text
}

fn text_counts(counts: &Counts) -> String {
    let mut text = String::new();
    for (cpu, records) in &counts.cpus {
        let _ = writeln!(text, "cpu {cpu}: {records} records");
    }
    let span = counts.last_ns.zip(counts.first_ns);
    let span = span.map_or(0, |(last, first)| last.saturating_sub(first));
    let _ = writeln!(
        text,
        "total: {} records of {} CPUs in {} s",
        counts.total,
        counts.cpus.len(),
        seconds(span)
    );
    let dropped = counts
        .dropped
        .map_or("unknown".to_owned(), |dropped| dropped.to_string());
    let _ = writeln!(
        text,
        "lost: {} sub-buffers, {dropped} records dropped by the kernel",
        counts.lost_subbufs
    );
    text
}

/// What the user should know about the counts.
pub fn warnings(recording: &Recording, counts: &Counts) -> Vec<String> {
    let mut warnings = Vec::new();
    if !recording.metadata.complete {
        warnings.push("the recording did not come to its end".to_owned());
    }
    for cpu in &recording.metadata.cpus {
        for warning in &cpu.tally.warnings {
            warnings.push(format!("cpu {}: {warning}", cpu.cpu));
        }
    }
    if !counts.truncated.is_empty() {
        let files: Vec<_> = counts
            .truncated
            .iter()
            .map(|truncated| format!("{} ({} bytes)", truncated.file, truncated.bytes))
            .collect();
        warnings.push(format!(
            "{} truncated records: {}",
            files.len(),
            files.join(", ")
        ));
    }
    if counts.out_of_order > 0 {
        warnings.push(format!(
            "{} records are earlier than one shown before them",
            counts.out_of_order
        ));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(kind: Kind, size: usize) -> Field {
        Field {
            name: "f".into(),
            offset: 0,
            size,
            kind,
        }
    }

    #[test]
    fn values_look_as_in_tracefs() {
        let show = |kind, bytes: &[u8]| text_value(&field(kind, bytes.len()), bytes);
        assert_eq!(show(Kind::Unsigned, &7u32.to_ne_bytes()), "7");
        assert_eq!(show(Kind::Signed, &(-7i32).to_ne_bytes()), "-7");
        assert_eq!(
            show(Kind::Unsigned, &u64::MAX.to_ne_bytes()),
            u64::MAX.to_string()
        );
        assert_eq!(show(Kind::Hex, &0xabcu64.to_ne_bytes()), "0xabc");
        assert_eq!(show(Kind::Text, b"bash\0rest"), "bash");
        assert_eq!(show(Kind::Text, b"full"), "full");
        assert_eq!(show(Kind::Text, b"\x1b[2J\xff"), "\\u{1b}[2J\u{fffd}");
        assert_eq!(show(Kind::Bytes, &[1, 0xff, 3]), "01ff03");
        let array = Kind::Array {
            element: 2,
            signed: true,
        };
        let mut two = (-1i16).to_ne_bytes().to_vec();
        two.extend(5i16.to_ne_bytes());
        assert_eq!(show(array, &two), "{-1,5}");
    }

    #[test]
    fn times_have_nine_digits() {
        assert_eq!(seconds(1), "0.000000001");
        assert_eq!(seconds(12_345_678_901), "12.345678901");
    }
}
