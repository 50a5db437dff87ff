// SPDX-License-Identifier: GPL-2.0

//! Perfetto's trace format: a sequence of packets, in protocol buffers. Of its messages these are the ones that are needed;
//! the numbers of the fields are those of its `.proto` files.

#![deny(unsafe_code)]

use std::collections::BTreeSet;
use std::io;
use std::io::Write;

use prost::Message;

use super::lanes::Lanes;
use super::tracks::Item;
use super::tracks::Span;
use super::tracks::Track;
use super::tracks::Tracks;
use crate::merge::calls::BETWEEN;
use crate::merge::format::Format;
use crate::merge::recording::Recording;
use crate::merge::run::Counts;
use crate::merge::sink::Sink;
use crate::merge::sink::WriteError;
use crate::merge::source::Event;
use crate::merge::value::Value;

/// `BUILTIN_CLOCK_REALTIME` and `BUILTIN_CLOCK_MONOTONIC`.
const REALTIME: u32 = 1;
const MONOTONIC: u32 = 3;

/// Types of a `TrackEvent`.
const BEGIN: i32 = 1;
const END: i32 = 2;
const INSTANT: i32 = 3;

/// All packets are of one writer.
const SEQUENCE: u32 = 1;

#[derive(Clone, PartialEq, Message)]
struct Trace {
    #[prost(message, repeated, tag = "1")]
    packet: Vec<Packet>,
}

#[derive(Clone, PartialEq, Message)]
struct Packet {
    #[prost(message, optional, tag = "6")]
    clock_snapshot: Option<ClockSnapshot>,
    #[prost(uint64, optional, tag = "8")]
    timestamp: Option<u64>,
    #[prost(uint32, optional, tag = "10")]
    trusted_packet_sequence_id: Option<u32>,
    #[prost(message, optional, tag = "11")]
    track_event: Option<TrackEvent>,
    #[prost(uint32, optional, tag = "58")]
    timestamp_clock_id: Option<u32>,
    #[prost(message, optional, tag = "60")]
    track_descriptor: Option<TrackDescriptor>,
}

#[derive(Clone, PartialEq, Message)]
struct ClockSnapshot {
    #[prost(message, repeated, tag = "1")]
    clocks: Vec<Clock>,
    #[prost(int32, optional, tag = "2")]
    primary_trace_clock: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
struct Clock {
    #[prost(uint32, optional, tag = "1")]
    clock_id: Option<u32>,
    #[prost(uint64, optional, tag = "2")]
    timestamp: Option<u64>,
}

#[derive(Clone, PartialEq, Message)]
struct TrackEvent {
    #[prost(message, repeated, tag = "4")]
    debug_annotations: Vec<Annotation>,
    #[prost(int32, optional, tag = "9")]
    kind: Option<i32>,
    #[prost(uint64, optional, tag = "11")]
    track_uuid: Option<u64>,
    #[prost(string, optional, tag = "23")]
    name: Option<String>,
    #[prost(message, optional, tag = "55")]
    callstack: Option<Callstack>,
}

/// Calls, the outermost first.
#[derive(Clone, PartialEq, Message)]
struct Callstack {
    #[prost(message, repeated, tag = "1")]
    frames: Vec<Frame>,
}

#[derive(Clone, PartialEq, Message)]
struct Frame {
    #[prost(string, optional, tag = "1")]
    function_name: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct Annotation {
    #[prost(string, optional, tag = "6")]
    string_value: Option<String>,
    #[prost(string, optional, tag = "10")]
    name: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct TrackDescriptor {
    #[prost(uint64, optional, tag = "1")]
    uuid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    name: Option<String>,
}

/// A number for a lane of a track that no other has.
fn uuid(track: Track, lane: u32) -> u64 {
    let lane = u64::from(lane) << 40;
    match track {
        Track::Cpu(cpu) => lane | 1 << 32 | u64::from(cpu),
        Track::Thread(thread) => lane | 2 << 32 | (thread.unsigned_abs() & 0xffff_ffff),
    }
}

/// Writes a trace.
pub struct Perfetto<W: Write> {
    to: Packets<W>,
    tracks: Tracks,
}

struct Packets<W> {
    out: W,
    name: String,
    described: BTreeSet<u64>,
    lanes: Lanes,
}

impl<W: Write> Packets<W> {
    fn packet(&mut self, packet: Packet) -> io::Result<()> {
        // A trace is the same as traces of one packet each, one after the other.
        let packet = vec![packet];
        self.out.write_all(&Trace { packet }.encode_to_vec())
    }

    fn item(
        &mut self,
        item: &Item<'_>,
        fields: &[Annotation],
        calls: Option<&Callstack>,
    ) -> io::Result<()> {
        let lane = match item.span {
            Span::Instant(_) => 0,
            Span::Slice(from, to) => self.lanes.place(item.track, from, to),
        };
        let uuid = uuid(item.track, lane);
        if self.described.insert(uuid) {
            self.packet(Packet {
                trusted_packet_sequence_id: Some(SEQUENCE),
                track_descriptor: Some(TrackDescriptor {
                    uuid: Some(uuid),
                    name: Some(item.track.to_string()),
                }),
                ..Packet::default()
            })?;
        }
        let (first, last) = match item.span {
            Span::Instant(at) => ((INSTANT, at), None),
            Span::Slice(from, to) => ((BEGIN, from), Some((END, to))),
        };
        for (kind, at) in [first].into_iter().chain(last) {
            let begins = kind != END;
            self.packet(Packet {
                timestamp: Some(at),
                timestamp_clock_id: Some(MONOTONIC),
                trusted_packet_sequence_id: Some(SEQUENCE),
                track_event: Some(TrackEvent {
                    debug_annotations: if begins { fields.to_vec() } else { Vec::new() },
                    kind: Some(kind),
                    track_uuid: Some(uuid),
                    name: begins.then(|| item.name.to_owned()),
                    callstack: calls.filter(|_| begins).cloned(),
                }),
                ..Packet::default()
            })?;
        }
        Ok(())
    }

    fn failed(&self, source: io::Error) -> WriteError {
        WriteError {
            to: self.name.clone(),
            source,
        }
    }
}

impl<W: Write> Perfetto<W> {
    /// Begins a trace of `recording` in `out`, which is called `name`.
    pub fn new(out: W, name: String, recording: &Recording) -> Result<Self, WriteError> {
        let mut to = Packets {
            out,
            name,
            described: BTreeSet::new(),
            lanes: Lanes::default(),
        };
        let metadata = &recording.metadata;
        let clock = |id, timestamp| Clock {
            clock_id: Some(id),
            timestamp: Some(timestamp),
        };
        let mut clocks = vec![clock(MONOTONIC, metadata.start_monotonic_ns)];
        if recording.clock_offset().is_some() {
            clocks.push(clock(REALTIME, metadata.start_unix_ns));
        }
        let written = to.packet(Packet {
            trusted_packet_sequence_id: Some(SEQUENCE),
            clock_snapshot: Some(ClockSnapshot {
                clocks,
                primary_trace_clock: i32::try_from(MONOTONIC).ok(),
            }),
            ..Packet::default()
        });
        written.map_err(|source| to.failed(source))?;
        Ok(Self {
            to,
            tracks: Tracks::default(),
        })
    }
}

impl<W: Write> Sink for Perfetto<W> {
    fn event(&mut self, event: &Event, format: &Format) -> Result<(), WriteError> {
        let to = &mut self.to;
        let calls = format.calls.and_then(|at| event.bytes.get(at..));
        let calls = calls.map(|calls| Callstack {
            frames: String::from_utf8_lossy(calls)
                .split(BETWEEN)
                .filter(|name| !name.is_empty())
                .map(|name| Frame {
                    function_name: Some(name.to_owned()),
                })
                .collect(),
        });
        let written = self.tracks.add(event, format, |item| {
            let fields = format.fields.iter().filter(|_| item.has_fields);
            let fields: Vec<_> = fields
                .map(|field| Annotation {
                    name: Some(field.name.clone()),
                    string_value: Some(Value::new(field, &event.bytes).to_string()),
                })
                .collect();
            to.item(&item, &fields, calls.as_ref().filter(|_| item.has_fields))
        });
        written.map_err(|source| self.to.failed(source))
    }

    fn end(&mut self, counts: &Counts) -> Result<(), WriteError> {
        let to = &mut self.to;
        let at = counts.last_ns.unwrap_or(0);
        let written = self.tracks.finish(at, |item| to.item(&item, &[], None));
        written
            .and_then(|()| self.to.out.flush())
            .map_err(|source| self.to.failed(source))
    }
}
