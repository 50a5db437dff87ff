// SPDX-License-Identifier: GPL-2.0

//! `ferrotrace export`: the timeline of a recording.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::common::ferrotrace;
use crate::common::readers::python;
use crate::common::recording::Recording;
use crate::common::recording::TIMELINE;
use crate::common::recording::call;
use crate::common::recording::fast;
use crate::common::recording::switch;
use crate::common::stdout;
use crate::common::succeed;

/// The type of a record without fields.
const TICK: &str = "name: tick\nID: 3\n";

/// CPU 0 runs bash from 1000 to 5000, then idles, then runs cat from 7001 to the end. Thread 42
/// makes a call from 2000 to 4500, and a call without a time. CPU 1 has a tick.
fn recorded() -> Recording {
    let cpu0 = [
        switch(1_000, 0, 41, "bash"),
        call(4_500, 42, 2_500),
        switch(5_000, 41, 0, "swapper"),
        call(6_000, 42, 0),
        switch(7_001, 0, 43, "cat"),
    ]
    .concat();
    let cpu1 = fast(3, 0, Some(9_000), b"");
    Recording::new("fast", &format!("{TIMELINE}{TICK}"), &[cpu0, cpu1])
}

fn export(recording: &Recording, args: &[&str]) -> Command {
    let mut command = ferrotrace();
    command.arg("export").arg(&recording.dir).args(args);
    command
}

/// Name, track, begin and end in nanoseconds: all formats must show these.
const EXPECTED: &str = "\
probe thread 42 2000 4500
bash-41 CPU 0 1000 5000
probe CPU 0 6000
cat-43 CPU 0 7001 9000
tick CPU 1 9000
";

#[test]
fn chrome_shows_slices_and_instants() {
    let recording = recorded();
    let text = stdout(&succeed(&mut export(&recording, &["--format", "chrome"])));
    // Times keep all of their digits.
    assert!(text.contains("\"ts\":7.001"), "{text}");
    let value: Value = serde_json::from_str(&text).unwrap();
    let nanos = |value: &Value| (value.as_f64().unwrap() * 1000.0).round();
    let mut lines: Vec<String> = Vec::new();
    for event in value["traceEvents"].as_array().unwrap() {
        let track = match event["pid"].as_u64() {
            Some(0) => "CPU",
            _ => "thread",
        };
        let begin = nanos(&event["ts"]);
        let mut line = format!(
            "{} {track} {} {begin}",
            event["name"].as_str().unwrap(),
            event["tid"]
        );
        if event["ph"] == "X" {
            line.push_str(&format!(" {}", begin + nanos(&event["dur"])));
        }
        lines.push(line);
    }
    let mut expected: Vec<_> = EXPECTED.lines().collect();
    expected.sort();
    lines.sort();
    assert_eq!(lines, expected);
    let probe = value["traceEvents"].as_array().unwrap();
    let probe = probe.iter().find(|event| event["name"] == "probe").unwrap();
    assert_eq!(probe["args"]["duration"], 2_500);
    assert_eq!(value["otherData"]["summary"]["total"], 6);
    // An export of an empty recording is still a document.
    let empty = Recording::new("fast", TIMELINE, &[Vec::new()]);
    let text = stdout(&succeed(&mut export(&empty, &["--format", "chrome"])));
    let value: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["traceEvents"].as_array().unwrap().len(), 0);
}

/// Reads a trace by Perfetto's own description of its format, from the PyPI package.
const READER: &str = r#"
import sys
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as p
trace = p.Trace()
trace.ParseFromString(open(sys.argv[1], "rb").read())
tracks, open_, lines = {}, {}, []
clocks = {}
for packet in trace.packet:
    if packet.HasField("clock_snapshot"):
        clocks = {clock.clock_id: clock.timestamp for clock in packet.clock_snapshot.clocks}
        assert packet.clock_snapshot.primary_trace_clock == 3
    if packet.HasField("track_descriptor"):
        tracks[packet.track_descriptor.uuid] = packet.track_descriptor.name
    if packet.HasField("track_event"):
        event = packet.track_event
        assert packet.timestamp_clock_id == 3
        if event.type == p.TrackEvent.TYPE_SLICE_BEGIN:
            open_[event.track_uuid] = event.name, packet.timestamp
        elif event.type == p.TrackEvent.TYPE_SLICE_END:
            name, begin = open_.pop(event.track_uuid)
            lines.append(f"{name} {tracks[event.track_uuid]} {begin} {packet.timestamp}")
        else:
            assert event.type == p.TrackEvent.TYPE_INSTANT
            lines.append(f"{event.name} {tracks[event.track_uuid]} {packet.timestamp}")
assert not open_
assert clocks == {3: 400, 1: 1700000000000000500}, clocks
print("\n".join(sorted(lines)))
"#;

fn to_perfetto(recording: &Recording) -> PathBuf {
    let path = recording.path("trace.pftrace");
    let to = path.to_str().unwrap();
    succeed(&mut export(recording, &["--format", "perfetto", "-o", to]));
    let message = crate::common::fail(&mut export(recording, &["--format", "perfetto", "-o", to]));
    assert!(message.contains("--force"), "{message}");
    path
}

#[test]
#[ignore = "needs the readers that make setup installs"]
fn reader_of_perfetto() {
    let recording = recorded();
    let lines = python(READER, &[to_perfetto(&recording).to_str().unwrap()]);
    let mut expected: Vec<_> = EXPECTED.lines().collect();
    expected.sort();
    assert_eq!(lines.lines().collect::<Vec<_>>(), expected);
}

/// Finds slices as a reader does: sorts the packets by time, and ends the latest begun slice first.
const SLICES: &str = r#"
import sys
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as p
trace = p.Trace()
trace.ParseFromString(open(sys.argv[1], "rb").read())
names = {q.track_descriptor.uuid: q.track_descriptor.name for q in trace.packet if q.HasField("track_descriptor")}
stacks = {}
for packet in sorted((q for q in trace.packet if q.HasField("track_event")), key=lambda q: q.timestamp):
    event = packet.track_event
    stack = stacks.setdefault(event.track_uuid, [])
    if event.type == p.TrackEvent.TYPE_SLICE_BEGIN:
        fields = {a.name: a.string_value for a in event.debug_annotations}
        stack.append((packet.timestamp, fields))
    else:
        begin, fields = stack.pop()
        # Each is as long as its own record says.
        assert packet.timestamp - begin == int(fields["duration"]), (begin, packet.timestamp, fields)
        print(names[event.track_uuid], begin, packet.timestamp)
assert not any(stacks.values())
"#;

/// Nested calls, two calls that begin together, and calls that only overlap.
#[test]
#[ignore = "needs the readers that make setup installs"]
fn reader_of_perfetto_finds_slices_that_overlap() {
    let slices = [
        (20, 30),
        (40, 50),
        (10, 60),
        (70, 80),
        (70, 90),
        (100, 140),
        (120, 150),
        (130, 160),
    ];
    let calls = slices.map(|(from, to)| call(to, 42, to - from));
    let recording = Recording::new("fast", TIMELINE, &[calls.concat()]);
    let lines = python(SLICES, &[to_perfetto(&recording).to_str().unwrap()]);
    let mut found: Vec<_> = lines.lines().collect();
    let expected = slices.map(|(from, to)| format!("thread 42 {from} {to}"));
    let mut expected = expected.to_vec();
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
}

/// Checks the bytes without a reader.
#[test]
fn a_trace_of_perfetto_has_packets_and_names() {
    let bytes = fs::read(to_perfetto(&recorded())).unwrap();
    // Each packet is field 1 of the trace.
    let (mut at, mut packets) = (0, 0);
    while at < bytes.len() {
        assert_eq!(bytes[at], 0x0a);
        let (mut length, mut shift) = (0, 0);
        loop {
            at += 1;
            length |= usize::from(bytes[at] & 0x7f) << shift;
            shift += 7;
            if bytes[at] & 0x80 == 0 {
                break;
            }
        }
        at += 1 + length;
        packets += 1;
    }
    // The clocks, three tracks, three slices, two instants.
    assert_eq!((at, packets), (bytes.len(), 1 + 3 + 2 * 3 + 2));
    for name in ["CPU 0", "CPU 1", "thread 42", "bash-41", "cat-43"] {
        let mut parts = bytes.windows(name.len());
        assert!(parts.any(|part| part == name.as_bytes()), "{name}");
    }
}

/// A marker of a processed profile; times in nanoseconds.
struct Marker {
    name: String,
    thread: String,
    begin: u64,
    end: Option<u64>,
    fields: BTreeMap<String, String>,
}

/// Returns all markers. A thread's tables are columns of equal length; a field is a string index if
/// the schema says so.
fn markers(profile: &Value) -> Vec<Marker> {
    let nanos = |value: &Value| {
        let nanos = (value.as_f64().unwrap() * 1e6).round();
        nanos.to_string().parse::<u64>().unwrap()
    };
    let schemas = profile["meta"]["markerSchema"].as_array().unwrap();
    let mut found = Vec::new();
    for thread in profile["threads"].as_array().unwrap() {
        let markers = &thread["markers"];
        let column = |name: &str| markers[name].as_array().unwrap();
        let length = markers["length"].as_u64().unwrap();
        let strings = &thread["stringArray"];
        let string = |value: &Value| {
            let index = usize::try_from(value.as_u64().unwrap()).unwrap();
            strings[index].as_str().unwrap().to_owned()
        };
        for index in 0..usize::try_from(length).unwrap() {
            let data = &column("data")[index];
            let schema = schemas.iter().find(|schema| schema["name"] == data["type"]);
            let fields = schema.unwrap()["fields"].as_array().unwrap().iter();
            let fields = fields.map(|field| {
                let value = &data[field["key"].as_str().unwrap()];
                let shown = match field["format"].as_str() {
                    Some("unique-string") => string(value),
                    Some("integer") => value.as_f64().unwrap().to_string(),
                    other => panic!("{other:?}"),
                };
                (field["label"].as_str().unwrap().to_owned(), shown)
            });
            let end = match column("phase")[index].as_u64() {
                Some(0) => None,
                Some(1) => Some(nanos(&column("endTime")[index])),
                other => panic!("{other:?}"),
            };
            let category = usize::try_from(column("category")[index].as_u64().unwrap()).unwrap();
            assert!(profile["meta"]["categories"][category]["name"].is_string());
            found.push(Marker {
                name: string(&column("name")[index]),
                thread: thread["name"].as_str().unwrap().to_owned(),
                begin: nanos(&column("startTime")[index]),
                end,
                fields: fields.collect(),
            });
        }
        for name in ["data", "name", "startTime", "endTime", "phase", "category"] {
            assert_eq!(u64::try_from(column(name).len()), Ok(length), "{name}");
        }
    }
    found
}

#[test]
fn firefox_shows_markers() {
    let recording = recorded();
    let text = stdout(&succeed(&mut export(&recording, &["--format", "firefox"])));
    let profile: Value = serde_json::from_str(&text).unwrap();
    let meta = &profile["meta"];
    assert!(meta["preprocessedProfileVersion"].as_u64().unwrap() >= 40);
    // The zero of CLOCK_MONOTONIC, in milliseconds.
    assert_eq!(meta["startTime"].as_f64(), Some(1_700_000_000_000.000_1));
    assert_eq!(meta["product"], "/sys/kernel/debug/x");
    assert_eq!(meta["initialVisibleThreads"].as_array().unwrap().len(), 3);
    let markers = markers(&profile);
    let mut lines: Vec<_> = markers
        .iter()
        .map(|marker| {
            let end = marker.end.map_or(String::new(), |end| format!(" {end}"));
            format!("{} {} {}{end}", marker.name, marker.thread, marker.begin)
        })
        .collect();
    lines.sort();
    let mut expected: Vec<_> = EXPECTED.lines().collect();
    expected.sort();
    assert_eq!(lines, expected);
    let call = markers.iter().find(|marker| marker.end == Some(4_500));
    let fields = &call.unwrap().fields;
    assert_eq!((&*fields["pid"], &*fields["duration"]), ("42", "2500"));
}

/// Each record of the text export is a marker of its CPU, with the same time and the same fields.
#[test]
fn firefox_has_what_text_has() {
    let formats = "\
name: all
ID: 1
format:
\tfield:u8 type;\toffset:0;\tsize:1;\tsigned:0;
\tfield:s16 s2;\toffset:2;\tsize:2;\tsigned:1;
\tfield:u32 u4;\toffset:4;\tsize:4;\tsigned:0;
\tfield:u64 u8;\toffset:8;\tsize:8;\tsigned:0;
\tfield:u64 caller_ip;\toffset:16;\tsize:8;\tsigned:0;
\tfield:char comm[8];\toffset:24;\tsize:8;\tsigned:0;
\tfield:s32 three[3];\toffset:32;\tsize:12;\tsigned:1;
name: all
ID: 2
format:
\tfield:u8 data[];\toffset:0;\tsize:0;\tsigned:0;
";
    let record = |i: u64| {
        let small = u8::try_from(i % 256).unwrap();
        let mut data = vec![small, 0];
        data.extend((-i16::from(small)).to_ne_bytes());
        data.extend((u32::MAX - u32::from(small)).to_ne_bytes());
        data.extend((u64::MAX - i).to_ne_bytes());
        data.extend((0xffff_ffff_8100_0000 + i).to_ne_bytes());
        data.extend(format!("c{:07}", i % 1000).as_bytes());
        data.extend(
            [1, -2, i32::from(small)]
                .iter()
                .flat_map(|n: &i32| n.to_ne_bytes()),
        );
        // Beyond a day, the nanoseconds are still exact.
        let time = 1_000_000_000_000_000 + 12_345 * i;
        match i % 3 {
            0 => fast(2, 0, Some(time), &data[..9]),
            1 => fast(7, 0, Some(time), &data[..3]),
            _ => fast(1, 0, Some(time), &data),
        }
    };
    let cpus: Vec<Vec<u8>> = (0..3)
        .map(|cpu| (0..500).flat_map(|i| record(i * 3 + i % 2 + cpu)).collect())
        .collect();
    let recording = Recording::new("fast", formats, &cpus);
    let text = stdout(&succeed(&mut export(&recording, &["--format", "firefox"])));
    let markers = markers(&serde_json::from_str(&text).unwrap());
    let mut shown: Vec<_> = markers
        .iter()
        .map(|marker| {
            assert_eq!(marker.end, None);
            let fields = marker.fields.iter();
            let fields: String = fields
                .map(|(name, value)| format!(" {name}={value}"))
                .collect();
            format!(
                "{} {} {}:{fields}",
                marker.thread, marker.begin, marker.name
            )
        })
        .collect();
    let text = stdout(&succeed(&mut export(&recording, &["--format", "text"])));
    let records = text.lines().filter(|line| line.starts_with('['));
    let mut expected: Vec<_> = records
        .map(|line| {
            let mut parts = line.splitn(4, ' ');
            let cpu: u32 = parts.next().unwrap()[1..4].parse().unwrap();
            let time: u64 = parts.next().unwrap().replace('.', "").parse().unwrap();
            let name = parts.next().unwrap();
            let mut fields: Vec<_> = parts.next().unwrap().split(' ').collect();
            fields.sort();
            format!("CPU {cpu} {time} {name} {}", fields.join(" "))
        })
        .collect();
    assert_eq!(expected.len(), 1500);
    shown.sort();
    expected.sort();
    assert_eq!(shown, expected);
}
