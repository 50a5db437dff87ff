// SPDX-License-Identifier: GPL-2.0

//! Merging a recording into a sink, and the counts and warnings afterwards.

#![deny(unsafe_code)]

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use serde::Serialize;

use super::calls;
use super::format::Format;
use super::order::Merge;
use super::order::Unreadable;
use super::order::Window;
use super::recording::Formats;
use super::recording::Recording;
use super::recording::RecordingError;
use super::sink::Sink;
use super::sink::WriteError;
use super::source::Damage;
use super::source::Event;
use crate::clock::Seconds;

/// Why a merge ended early.
#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    /// The recording cannot be read.
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// A file of it cannot be read to its end.
    #[error("{}: cannot be read to its end", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The output cannot be written; the reader may have gone.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// Which records are taken.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Write only that many records; count all.
    pub limit: Option<u64>,
    /// Leave out those before this time, in nanoseconds.
    pub from: Option<u64>,
    /// Leave out those after this time.
    pub to: Option<u64>,
    /// Only those of these CPUs; those of all CPUs if the list is empty.
    pub cpus: Vec<RangeInclusive<u32>>,
}

impl Selection {
    fn takes(&self, event: &Event) -> bool {
        self.from.is_none_or(|from| event.time >= from)
            && self.to.is_none_or(|to| event.time <= to)
            && self.takes_cpu(event.cpu)
    }

    /// Those of `cpus` of which there are no records.
    fn absent<'a>(&'a self, seen: &'a BTreeSet<u32>) -> impl Iterator<Item = String> + 'a {
        let absent = self
            .cpus
            .iter()
            .filter(|cpus| seen.range((*cpus).clone()).next().is_none());
        absent.map(|cpus| match (cpus.start(), cpus.end()) {
            (first, last) if first == last => first.to_string(),
            (first, last) => format!("{first}-{last}"),
        })
    }

    fn takes_cpu(&self, cpu: u32) -> bool {
        self.cpus.is_empty() || self.cpus.iter().any(|cpus| cpus.contains(&cpu))
    }
}

/// A file that ends inside a record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Truncated {
    /// The file.
    pub file: String,
    /// Bytes of the unfinished record.
    pub bytes: u64,
}

/// A file that contains something that is not a record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Corrupt {
    /// The file.
    pub file: String,
    /// The position of that; the file was read up to there.
    pub at: u64,
}

/// The counts of a merge.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Records of each CPU.
    pub cpus: BTreeMap<u32, u64>,
    /// Records of all CPUs.
    pub total: u64,
    /// The earliest and the latest time, in nanoseconds, of the records that have one.
    pub first_ns: Option<u64>,
    /// The latest time.
    pub last_ns: Option<u64>,
    /// Records that were earlier than one before them in their file.
    pub sorted: u64,
    /// Those among them that came too late to be sorted.
    pub out_of_order: u64,
    /// Records that claim to be of a time after the recording, by whatever clock.
    pub impossible: u64,
    /// Records shorter than the description of their type.
    pub short: u64,
    /// Files that end inside a record.
    pub truncated: Vec<Truncated>,
    /// Files that could not be understood to their end.
    pub corrupt: Vec<Corrupt>,
    /// Sub-buffers lost while it was recorded.
    pub lost_subbufs: u64,
    /// Bytes overwritten before they could be recorded: fast channels.
    pub overwritten_bytes: u64,
    /// Records that the kernel could not write, for each CPU with such losses: fast channels.
    pub lost: BTreeMap<u32, u64>,
    /// Records that the kernel dropped meanwhile, if it counts them.
    pub dropped: Option<u64>,
    /// Selected items that the recording lacks.
    #[serde(skip)]
    pub absent: Vec<String>,
}

/// All records of a recording, whichever are taken.
#[derive(Default)]
struct Seen {
    cpus: BTreeSet<u32>,
    times: Option<(u64, u64)>,
}

impl Seen {
    fn add(&mut self, event: &Event) {
        self.cpus.insert(event.cpu);
        let (first, last) = self.times.unwrap_or((event.time, event.time));
        self.times = Some((first.min(event.time), last.max(event.time)));
    }

    /// Returns messages on the parts of `selection` that match no record; `took` is true if any
    /// record was selected.
    fn absent(&self, selection: &Selection, took: bool) -> Vec<String> {
        // What is not there cannot be missed.
        let Some((first, last)) = self.times else {
            return Vec::new();
        };
        let cpus: Vec<_> = self.cpus.iter().map(u32::to_string).collect();
        let mut absent: Vec<_> = selection
            .absent(&self.cpus)
            .map(|asked| {
                let cpus = cpus.join(", ");
                format!("there are no records of CPU {asked}; the CPUs with records are {cpus}")
            })
            .collect();
        if !took && absent.is_empty() {
            absent.push(format!(
                "no record is selected; their times are {} to {}",
                Seconds(first),
                Seconds(last)
            ));
        }
        absent
    }
}

/// Finds the description of a record.
struct Describer<'a> {
    formats: &'a Formats,
    raw: BTreeMap<u16, Format>,
    short: u64,
}

impl Describer<'_> {
    fn describe(&mut self, event: &Event) -> &Format {
        let typed = match self.formats {
            Formats::Fixed(format) => return &format.format,
            Formats::Typed(typed) => typed,
        };
        if let Some(format) = typed.get(event.ty) {
            if event.bytes.len() >= format.len {
                return format;
            }
            self.short += 1;
        }
        let raw = self.raw.entry(event.ty);
        raw.or_insert_with(|| Format::raw(event.ty))
    }
}

/// Writes the records of a recording to `sink`, in the order of their times.
pub fn merge(
    recording: &Recording,
    selection: &Selection,
    sink: &mut dyn Sink,
) -> Result<Counts, MergeError> {
    let path = |file: usize| recording.path(file);
    let unreadable = |error: Unreadable| MergeError::Read {
        path: path(error.file),
        source: error.source,
    };
    let mut merge = Merge::new(recording.sources()?, Window::default()).map_err(unreadable)?;
    let mut describer = Describer {
        formats: &recording.formats,
        raw: BTreeMap::new(),
        short: 0,
    };
    let mut counts = Counts::default();
    let mut seen = Seen::default();
    let latest = recording.latest();
    for event in &mut merge {
        let mut event = event.map_err(unreadable)?;
        seen.add(&event);
        counts.impossible += u64::from(event.time > latest);
        if !selection.takes(&event) {
            continue;
        }
        if selection.limit.is_none_or(|limit| counts.total < limit) {
            let format = describer.describe(&event);
            calls::name(&mut event, format, &recording.names);
            sink.event(&event, format)?;
        }
        *counts.cpus.entry(event.cpu).or_default() += 1;
        counts.total += 1;
        if !event.timed {
            continue;
        }
        let (first, last) = (counts.first_ns, counts.last_ns);
        counts.first_ns = Some(first.map_or(event.time, |first| first.min(event.time)));
        counts.last_ns = Some(last.map_or(event.time, |last| last.max(event.time)));
    }
    counts.absent = seen.absent(selection, counts.total > 0);
    counts.sorted = merge.moved();
    counts.out_of_order = merge.late();
    counts.short = describer.short;
    for (file, damage) in merge.damage() {
        let path = path(file);
        let file = path.file_name().unwrap_or_default();
        let file = file.to_string_lossy().into_owned();
        match damage {
            Damage::Truncated { bytes } => counts.truncated.push(Truncated { file, bytes }),
            Damage::Corrupt { at } => counts.corrupt.push(Corrupt { file, at }),
        }
    }
    for cpu in &recording.metadata.cpus {
        let (number, tally) = (cpu.cpu.0, &cpu.tally);
        counts.lost_subbufs = counts.lost_subbufs.saturating_add(tally.lost_subbufs);
        let overwritten = &mut counts.overwritten_bytes;
        *overwritten = overwritten.saturating_add(tally.overwritten_bytes);
        if tally.lost_records > 0 && selection.takes_cpu(number) {
            counts.lost.insert(number, tally.lost_records);
        }
    }
    counts.dropped = recording.metadata.dropped;
    sink.end(&counts)?;
    Ok(counts)
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (cpu, records) in &self.cpus {
            writeln!(f, "cpu {cpu}: {records} records")?;
        }
        let span = self.last_ns.zip(self.first_ns);
        let span = span.map_or(0, |(last, first)| last.saturating_sub(first));
        let (total, cpus, span) = (self.total, self.cpus.len(), Seconds(span));
        writeln!(f, "total: {total} records of {cpus} CPUs in {span} s")?;
        write!(f, "lost: {} sub-buffers, ", self.lost_subbufs)?;
        match self.dropped {
            Some(dropped) => write!(f, "{dropped}")?,
            None => f.write_str("unknown")?,
        }
        f.write_str(" records dropped by the kernel")?;
        if self.overwritten_bytes > 0 {
            write!(f, ", {} bytes overwritten", self.overwritten_bytes)?;
        }
        f.write_str("\n")
    }
}

/// Warnings about the counts.
pub fn warnings(recording: &Recording, counts: &Counts) -> Vec<String> {
    let mut warnings = counts.absent.clone();
    if !recording.metadata.complete {
        warnings.push(
            "the recording did not come to its end; its last records may also be at the start of the next one"
                .to_owned(),
        );
    }
    for cpu in &recording.metadata.cpus {
        for warning in &cpu.tally.warnings {
            warnings.push(format!("cpu {}: {warning}", cpu.cpu));
        }
    }
    if !counts.truncated.is_empty() {
        let files = counts.truncated.iter();
        let files: Vec<_> = files
            .map(|truncated| format!("{} ({} bytes)", truncated.file, truncated.bytes))
            .collect();
        warnings.push(format!(
            "{} truncated records: {}",
            files.len(),
            files.join(", ")
        ));
    }
    for Corrupt { file, at } in &counts.corrupt {
        warnings.push(format!(
            "{file}: byte {at} begins no record; the rest of the file is left out"
        ));
    }
    if counts.impossible > 0 {
        warnings.push(format!(
            "{} records claim to be later than the recording; the files do not hold what format describes",
            counts.impossible
        ));
    }
    if counts.short > 0 {
        warnings.push(format!(
            "{} records are shorter than their description and shown as bytes",
            counts.short
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
