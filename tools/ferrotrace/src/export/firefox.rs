// SPDX-License-Identifier: GPL-2.0

//! The processed profile of Firefox Profiler: slices and instants as markers, CPUs and threads as threads.
//!
//! The format has a table for each thread, so that nothing can be written before everything is known: memory grows with what
//! is shown, as that of the viewer does, up to [`MOST`] markers.

#![deny(unsafe_code)]

use std::collections::BTreeMap;
use std::io;
use std::io::Write;

use fxprof_processed_profile::CategoryColor;
use fxprof_processed_profile::CategoryHandle;
use fxprof_processed_profile::CpuDelta;
use fxprof_processed_profile::Frame;
use fxprof_processed_profile::FrameFlags;
use fxprof_processed_profile::FrameInfo;
use fxprof_processed_profile::Marker;
use fxprof_processed_profile::MarkerFieldFlags;
use fxprof_processed_profile::MarkerFieldFormat;
use fxprof_processed_profile::MarkerHandle;
use fxprof_processed_profile::MarkerLocations;
use fxprof_processed_profile::MarkerTiming;
use fxprof_processed_profile::MarkerTypeHandle;
use fxprof_processed_profile::ProcessHandle;
use fxprof_processed_profile::Profile;
use fxprof_processed_profile::ReferenceTimestamp;
use fxprof_processed_profile::RuntimeSchemaMarkerField;
use fxprof_processed_profile::RuntimeSchemaMarkerSchema;
use fxprof_processed_profile::SamplingInterval;
use fxprof_processed_profile::StringHandle;
use fxprof_processed_profile::ThreadHandle;
use fxprof_processed_profile::Timestamp;

use super::tracks::Item;
use super::tracks::Span;
use super::tracks::Track;
use super::tracks::Tracks;
use crate::merge::calls::BETWEEN;
use crate::merge::field::Field;
use crate::merge::field::Kind;
use crate::merge::field::signed;
use crate::merge::field::unsigned;
use crate::merge::format::Format;
use crate::merge::recording::Recording;
use crate::merge::run::Counts;
use crate::merge::sink::Sink;
use crate::merge::sink::WriteError;
use crate::merge::source::Event;
use crate::merge::value::Value;

/// The most markers: some 400 MB of memory here, and more than the viewer likes.
pub const MOST: u64 = 4 << 20;

/// The value of a field of a marker.
enum Shown {
    Number(f64),
    Text(StringHandle),
}

/// A record, or what a CPU ran.
struct Drawn {
    kind: MarkerTypeHandle,
    name: StringHandle,
    category: CategoryHandle,
    values: Vec<Shown>,
}

impl Marker for Drawn {
    fn marker_type(&self, _: &mut Profile) -> MarkerTypeHandle {
        self.kind
    }

    fn name(&self, _: &mut Profile) -> StringHandle {
        self.name
    }

    fn category(&self, _: &mut Profile) -> CategoryHandle {
        self.category
    }

    fn string_field_value(&self, index: u32) -> StringHandle {
        match self.value(index) {
            Some(Shown::Text(text)) => *text,
            // No schema has a text where the values have a number.
            _ => self.name,
        }
    }

    fn number_field_value(&self, index: u32) -> f64 {
        match self.value(index) {
            Some(Shown::Number(number)) => *number,
            _ => 0.0,
        }
    }
}

impl Drawn {
    fn value(&self, index: u32) -> Option<&Shown> {
        self.values.get(usize::try_from(index).ok()?)
    }
}

/// Profile under construction.
struct Drawing {
    profile: Profile,
    cpus: ProcessHandle,
    threads: ProcessHandle,
    tracks: BTreeMap<Track, ThreadHandle>,
    kinds: BTreeMap<u32, MarkerTypeHandle>,
    running: MarkerTypeHandle,
    colors: [CategoryHandle; 3],
    markers: u64,
}

/// A number that fits into JSON's; one of 8 bytes is a text, so that no digit is lost.
fn number(field: &Field, record: &[u8]) -> Option<f64> {
    let bytes = field.bytes(record);
    match (field.kind, field.size) {
        (Kind::Unsigned, Some(1 | 2 | 4)) => {
            let number = unsigned(bytes).and_then(|number| u32::try_from(number).ok());
            Some(number.unwrap_or_default().into())
        }
        (Kind::Signed, Some(1 | 2 | 4)) => {
            let number = signed(bytes).and_then(|number| i32::try_from(number).ok());
            Some(number.unwrap_or_default().into())
        }
        _ => None,
    }
}

fn schema(name: String, fields: Vec<RuntimeSchemaMarkerField>) -> RuntimeSchemaMarkerSchema {
    let label = || Some("{marker.name}".to_owned());
    let all: Vec<_> = fields
        .iter()
        .map(|field| format!("{}={{marker.data.{}}}", field.label, field.key))
        .collect();
    let table = if all.is_empty() {
        label()
    } else {
        Some(all.join(" "))
    };
    RuntimeSchemaMarkerSchema {
        type_name: name,
        description: None,
        locations: MarkerLocations::MARKER_CHART
            | MarkerLocations::MARKER_TABLE
            | MarkerLocations::TIMELINE_OVERVIEW,
        chart_label: label(),
        tooltip_label: label(),
        table_label: table,
        fields,
        graphs: Vec::new(),
    }
}

impl Drawing {
    fn new(recording: &Recording) -> Self {
        let offset = recording.clock_offset().unwrap_or(0);
        let start = std::time::Duration::from_nanos(offset);
        let start = ReferenceTimestamp::from_duration_since_unix_epoch(start);
        let channel = recording.metadata.channel.display().to_string();
        let interval = SamplingInterval::from_nanos(1);
        let mut profile = Profile::new(&channel, start, interval);
        let zero = Timestamp::from_nanos_since_reference(0);
        let cpus = profile.add_process("CPUs", 0, zero);
        let threads = profile.add_process("threads", 1, zero);
        let running = profile.register_marker_type(schema("running".to_owned(), Vec::new()));
        let colors = [
            profile.add_category("running", CategoryColor::Green),
            profile.add_category("calls", CategoryColor::Blue),
            profile.add_category("records", CategoryColor::Orange),
        ];
        Self {
            profile,
            cpus,
            threads,
            tracks: BTreeMap::new(),
            kinds: BTreeMap::new(),
            running,
            colors,
            markers: 0,
        }
    }

    fn track(&mut self, track: Track) -> ThreadHandle {
        if let Some(&thread) = self.tracks.get(&track) {
            return thread;
        }
        let (process, tid) = match track {
            Track::Cpu(cpu) => (self.cpus, cpu),
            Track::Thread(thread) => (self.threads, u32::try_from(thread).unwrap_or(u32::MAX)),
        };
        let zero = Timestamp::from_nanos_since_reference(0);
        let profile = &mut self.profile;
        let thread = profile.add_thread(process, tid, zero, false);
        profile.set_thread_name(thread, &track.to_string());
        // Otherwise threads without samples are hidden, and their markers not drawn.
        profile.set_thread_show_markers_in_timeline(thread, true);
        profile.add_initial_visible_thread(thread);
        self.tracks.insert(track, thread);
        thread
    }

    fn kind(&mut self, format: &Format) -> MarkerTypeHandle {
        if let Some(&kind) = self.kinds.get(&format.id) {
            return kind;
        }
        let fields = format.fields.iter().map(|field| RuntimeSchemaMarkerField {
            // Two names are the format's own.
            key: match field.name.as_str() {
                "type" | "cause" => format!("{}_", field.name),
                name => name.to_owned(),
            },
            label: field.name.clone(),
            format: match number(field, &[]) {
                Some(_) => MarkerFieldFormat::Integer,
                None => MarkerFieldFormat::String,
            },
            flags: MarkerFieldFlags::SEARCHABLE,
        });
        // Two types of records may have one name.
        let name = format!("{}-{}", format.name, format.id);
        let schema = schema(name, fields.collect());
        let kind = self.profile.register_marker_type(schema);
        self.kinds.insert(format.id, kind);
        kind
    }

    fn draw(&mut self, item: &Item<'_>, record: Option<(&Event, &Format)>) -> io::Result<()> {
        self.markers += 1;
        if self.markers > MOST {
            return Err(io::Error::other(format!(
                "more than {MOST} markers; select a part with --from, --to or --cpu"
            )));
        }
        let (kind, values) = match record {
            None => (self.running, Vec::new()),
            Some((event, format)) => {
                let kind = self.kind(format);
                let shown = |field: &Field| match number(field, &event.bytes) {
                    Some(number) => Shown::Number(number),
                    None => {
                        let text = Value::new(field, &event.bytes).to_string();
                        Shown::Text(self.profile.intern_string(&text))
                    }
                };
                (kind, format.fields.iter().map(shown).collect())
            }
        };
        let [running, calls, records] = self.colors;
        let at = Timestamp::from_nanos_since_reference;
        let (timing, category) = match item.span {
            Span::Instant(time) => (MarkerTiming::Instant(at(time)), records),
            Span::Slice(from, to) => {
                let category = if record.is_some() { calls } else { running };
                (MarkerTiming::Interval(at(from), at(to)), category)
            }
        };
        let thread = self.track(item.track);
        let name = self.profile.intern_string(item.name);
        let drawn = Drawn {
            kind,
            name,
            category,
            values,
        };
        let marker = self.profile.add_marker(thread, timing, drawn);
        if let Some((event, format)) = record {
            self.calls(thread, marker, event, format);
        }
        Ok(())
    }

    /// Gives a record the calls that have led to it, and counts it as a sample of them, for the call tree and the flame graph.
    fn calls(
        &mut self,
        thread: ThreadHandle,
        marker: MarkerHandle,
        event: &Event,
        format: &Format,
    ) {
        let Some(calls) = format.calls.and_then(|at| event.bytes.get(at..)) else {
            return;
        };
        let [_, _, records] = self.colors;
        let text = String::from_utf8_lossy(calls).into_owned();
        let mut stack = None;
        for name in text.split(BETWEEN).filter(|name| !name.is_empty()) {
            let label = self.profile.intern_string(name);
            let frame = FrameInfo {
                frame: Frame::Label(label),
                category_pair: records.into(),
                flags: FrameFlags::empty(),
            };
            let frame = self.profile.intern_frame(thread, frame);
            stack = Some(self.profile.intern_stack(thread, stack, frame));
        }
        self.profile.set_marker_stack(thread, marker, stack);
        let at = Timestamp::from_nanos_since_reference(event.time);
        let none = CpuDelta::from_nanos(0);
        self.profile.add_sample(thread, at, stack, none, 1);
    }
}

/// Collects a profile, and writes it at the end.
pub struct Firefox<W: Write> {
    out: W,
    name: String,
    tracks: Tracks,
    drawing: Drawing,
}

impl<W: Write> Firefox<W> {
    /// A profile of `recording`, to be written to `out`, which is called `name`.
    pub fn new(out: W, name: String, recording: &Recording) -> Self {
        Self {
            out,
            name,
            tracks: Tracks::default(),
            drawing: Drawing::new(recording),
        }
    }
}

impl<W: Write> Sink for Firefox<W> {
    fn event(&mut self, event: &Event, format: &Format) -> Result<(), WriteError> {
        let drawing = &mut self.drawing;
        let drawn = self.tracks.add(event, format, |item| {
            let record = item.has_fields.then_some((event, format));
            drawing.draw(&item, record)
        });
        drawn.map_err(|source| WriteError {
            to: self.name.clone(),
            source,
        })
    }

    fn end(&mut self, counts: &Counts) -> Result<(), WriteError> {
        let drawing = &mut self.drawing;
        let at = counts.last_ns.unwrap_or(0);
        let drawn = self.tracks.finish(at, |item| drawing.draw(&item, None));
        drawn
            .and_then(|()| {
                serde_json::to_writer(&mut self.out, &self.drawing.profile).map_err(io::Error::from)
            })
            .and_then(|()| self.out.write_all(b"\n"))
            .and_then(|()| self.out.flush())
            .map_err(|source| WriteError {
                to: self.name.clone(),
                source,
            })
    }
}
