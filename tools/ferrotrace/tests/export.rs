// SPDX-License-Identifier: GPL-2.0

//! `ferrotrace export`: what a timeline shows of a recording.

#![allow(missing_docs, clippy::unwrap_used, clippy::indexing_slicing)]

mod common;
#[path = "common/recording.rs"]
mod recording;

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use common::ferrotrace;
use common::stderr;
use common::stdout;
use common::succeed;
use recording::Recording;
use recording::fast;

const FORMATS: &str = "\
name: sched_switch
ID: 1
format:
\tfield:s32 prev_pid;\toffset:0;\tsize:4;\tsigned:1;
\tfield:s32 next_pid;\toffset:4;\tsize:4;\tsigned:1;
\tfield:char next_comm[16];\toffset:8;\tsize:16;\tsigned:0;
name: probe
ID: 2
format:
\tfield:s32 pid;\toffset:0;\tsize:4;\tsigned:1;
\tfield:u64 duration;\toffset:8;\tsize:8;\tsigned:0;
name: tick
ID: 3
";

fn switch(time: u64, prev: i32, next: i32, comm: &str) -> Vec<u8> {
    let mut data = [prev.to_ne_bytes(), next.to_ne_bytes()].concat();
    data.extend(comm.as_bytes());
    data.resize(24, 0);
    fast(1, 0, Some(time), &data)
}

fn probe(time: u64, pid: i32, duration: u64) -> Vec<u8> {
    let mut data = pid.to_ne_bytes().to_vec();
    data.extend([0; 4]);
    data.extend(duration.to_ne_bytes());
    fast(2, 0, Some(time), &data)
}

/// CPU 0: bash from 1000 to 5000, idle, cat from 7001 to the end; a call of thread 42 from 2000 to 4500, and one of
/// which no time is known. CPU 1: a tick.
fn recorded() -> Recording {
    let cpu0 = [
        switch(1_000, 0, 41, "bash"),
        probe(4_500, 42, 2_500),
        switch(5_000, 41, 0, "swapper"),
        probe(6_000, 42, 0),
        switch(7_001, 0, 43, "cat"),
    ]
    .concat();
    let cpu1 = fast(3, 0, Some(9_000), b"");
    Recording::new("fast", FORMATS, &[cpu0, cpu1])
}

fn export(recording: &Recording, args: &[&str]) -> Command {
    let mut command = ferrotrace();
    command.arg("export").arg(&recording.dir).args(args);
    command
}

/// Name, track, begin and end, in nanoseconds: what both formats have to show.
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
    // A recording of nothing is still a document.
    let empty = Recording::new("fast", FORMATS, &[Vec::new()]);
    let text = stdout(&succeed(&mut export(&empty, &["--format", "chrome"])));
    let value: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["traceEvents"].as_array().unwrap().len(), 0);
}

/// The same by Perfetto's own description of its format, where PyPI's package is there.
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

#[test]
fn perfetto_reads_it() {
    let recording = recorded();
    let path = recording.path("trace.pftrace");
    let to = path.to_str().unwrap();
    succeed(&mut export(&recording, &["--format", "perfetto", "-o", to]));
    let bytes = fs::read(&path).unwrap();
    // Each packet is field 1 of the trace.
    assert_eq!(bytes[0], 0x0a);
    for name in ["CPU 0", "CPU 1", "thread 42", "bash-41", "cat-43"] {
        let found = bytes
            .windows(name.len())
            .any(|part| part == name.as_bytes());
        assert!(found, "{name}");
    }
    let message = common::fail(&mut export(&recording, &["--format", "perfetto", "-o", to]));
    assert!(message.contains("--force"), "{message}");

    let python = std::env::var("FERROTRACE_READERS").unwrap_or_default();
    let python = Path::new(&python).join("bin/python3");
    if !python.exists() {
        // The suite "host" says whether the readers are there.
        return;
    }
    let output = Command::new(python)
        .args(["-c", READER, to])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let mut expected: Vec<_> = EXPECTED.lines().collect();
    expected.sort();
    assert_eq!(stdout(&output).lines().collect::<Vec<_>>(), expected);
}
