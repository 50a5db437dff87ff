// SPDX-License-Identifier: GPL-2.0

//! `ferrotrace relay merge --format ctf`, read back with `babeltrace2`.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

mod common;
#[path = "common/recording.rs"]
mod recording;

use std::path::Path;
use std::path::PathBuf;
use std::process::Command;

use proptest::prelude::*;

use common::stderr;
use common::stdout;
use common::succeed;
use recording::DISCARDED;
use recording::PADDING;
use recording::Recording;
use recording::fast;

const FORMATS: &str = "\
name: all kinds \"quoted\" \\
ID: 7
format:
\tfield:u8 u1;\toffset:0;\tsize:1;\tsigned:0;
\tfield:s16 s2;\toffset:2;\tsize:2;\tsigned:1;
\tfield:s32 int;\toffset:4;\tsize:4;\tsigned:1;
\tfield:u64 u8;\toffset:8;\tsize:8;\tsigned:0;
\tfield:s64 _s8;\toffset:16;\tsize:8;\tsigned:1;
\tfield:u64 caller_ip;\toffset:24;\tsize:8;\tsigned:0;
\tfield:char comm[16];\toffset:32;\tsize:16;\tsigned:0;
\tfield:s16 Bool[3];\toffset:48;\tsize:6;\tsigned:1;
\tfield:struct odd event;\toffset:54;\tsize:3;\tsigned:0;

name: variable
ID: 65535
format:
\tfield:u32 path_length;\toffset:0;\tsize:4;\tsigned:0;
\tfield:char path[];\toffset:4;\tsize:0;\tsigned:0;

name: blob
ID: 0
format:
\tfield:u16 data_length;\toffset:0;\tsize:2;\tsigned:0;
\tfield:u8 data[];\toffset:2;\tsize:0;\tsigned:0;

name: empty
ID: 1
";

fn babeltrace(trace: &Path, args: &[&str]) -> Command {
    let mut command = Command::new("babeltrace2");
    command.arg(trace).args(args).env("LC_ALL", "C.UTF-8");
    command
}

/// The events of a trace, one a line, times as numbers.
fn read(trace: &Path) -> Vec<String> {
    let mut command = babeltrace(trace, &["--clock-cycles", "--no-delta"]);
    let output = command
        .output()
        .expect("babeltrace2 (make setup installs it)");
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stderr(&output), "");
    stdout(&output).lines().map(str::to_owned).collect()
}

fn trace(recording: &Recording, args: &[&str]) -> PathBuf {
    let path = recording.path("trace");
    let mut command = recording.merge(&["--format", "ctf", "-o"]);
    let output = succeed(command.arg(&path).args(args));
    assert!(stdout(&output).contains(&format!("written to {}\n", path.display())));
    path
}

/// `{ a, b }`, and `{ }` for none.
fn braces(members: &[String]) -> String {
    match members {
        [] => "{ }".to_owned(),
        _ => format!("{{ {} }}", members.join(", ")),
    }
}

fn array<T>(elements: &[T], show: impl Fn(&T) -> String) -> String {
    let elements: Vec<_> = elements
        .iter()
        .enumerate()
        .map(|(index, element)| format!("[{index}] = {}", show(element)))
        .collect();
    match &elements[..] {
        [] => "[ ]".to_owned(),
        _ => format!("[ {} ]", elements.join(", ")),
    }
}

fn hex(byte: &u8) -> String {
    format!("0x{byte:X}")
}

/// One event: its type, its data, and what babeltrace2 shows.
#[derive(Clone, Debug)]
struct Sample {
    ty: u16,
    data: Vec<u8>,
    shown: String,
}

fn sample(ty: u16, data: Vec<u8>, name: &str, members: &[String]) -> Sample {
    let shown = format!("{name}: {{ cpu_id = CPU }}, {}", braces(members));
    Sample { ty, data, shown }
}

fn kinds() -> impl Strategy<Value = Sample> {
    let numbers = any::<(u8, i16, i32, u64, i64, u64)>();
    let others = ("[a-zA-Z0-9/:é]{1,8}", any::<[i16; 3]>(), any::<[u8; 3]>());
    (numbers, others).prop_map(|((u1, s2, s4, u8, s8, ip), (comm, three, odd))| {
        let mut data = vec![u1, 0xaa];
        data.extend(s2.to_ne_bytes());
        data.extend(s4.to_ne_bytes());
        data.extend(u8.to_ne_bytes());
        data.extend(s8.to_ne_bytes());
        data.extend(ip.to_ne_bytes());
        let mut text = [0; 16];
        text[..comm.len()].copy_from_slice(comm.as_bytes());
        // What follows the first NUL does not count.
        if let Some(after) = text.get_mut(comm.len() + 1..) {
            after.fill(b'x');
        }
        data.extend(text);
        data.extend(three.iter().flat_map(|number| number.to_ne_bytes()));
        data.extend(odd);
        sample(
            7,
            data,
            "all kinds \"quoted\" \\",
            &[
                format!("u1 = {u1}"),
                format!("s2 = {s2}"),
                format!("int = {s4}"),
                format!("u8 = {u8}"),
                format!("_s8 = {s8}"),
                format!("caller_ip = 0x{ip:X}"),
                format!("comm = \"{comm}\""),
                format!("_Bool = {}", array(&three, i16::to_string)),
                format!("event = {}", array(&odd, hex)),
            ],
        )
    })
}

fn variable() -> impl Strategy<Value = Sample> {
    (any::<u32>(), "[a-zA-Z0-9/ ]{1,300}").prop_map(|(number, path)| {
        let mut data = number.to_ne_bytes().to_vec();
        data.extend(path.bytes());
        let members = [
            format!("path_length = {number}"),
            format!("path = \"{path}\""),
        ];
        sample(65535, data, "variable", &members)
    })
}

fn bytes(name: &str, bytes: &[u8]) -> [String; 2] {
    let length = format!("{name} = {}", bytes.len());
    [length, format!("data = {}", array(bytes, hex))]
}

fn blob() -> impl Strategy<Value = Sample> {
    let data = prop::collection::vec(any::<u8>(), 0..40);
    (any::<u16>(), data).prop_map(|(number, rest)| {
        let mut data = number.to_ne_bytes().to_vec();
        data.extend(&rest);
        let mut members = vec![format!("data_length = {number}")];
        members.extend(bytes("data_length_", &rest));
        sample(0, data, "blob", &members)
    })
}

/// Nothing is known of the type, or the data are too short for what is known.
fn unknown() -> impl Strategy<Value = Sample> {
    let data = prop::collection::vec(any::<u8>(), 0..40);
    (prop_oneof![Just(7u16), 2u16..5], data).prop_map(|(ty, data)| {
        let members = bytes("data_length", &data);
        let name = format!("type_{ty}");
        sample(ty, data, &name, &members)
    })
}

fn samples() -> impl Strategy<Value = Sample> {
    let empty = Just(sample(1, vec![1, 2, 3], "empty", &[]));
    prop_oneof![4 => kinds(), 2 => variable(), 2 => blob(), 2 => unknown(), 1 => empty]
}

/// Records of one CPU: the nanoseconds since the last, or no time of its own.
fn cpu() -> impl Strategy<Value = Vec<(Option<u64>, Sample)>> {
    let time = prop_oneof![4 => (0u64..1000).prop_map(Some), 1 => Just(None)];
    prop::collection::vec((time, samples()), 0..30)
}

/// Writes the files, and says what should be read.
fn record(cpus: &[Vec<(Option<u64>, Sample)>]) -> (Recording, Vec<String>) {
    let mut files = Vec::new();
    let mut shown = Vec::new();
    for (cpu, samples) in cpus.iter().enumerate() {
        let mut file = fast(0, PADDING, None, &[0xff; 24]);
        let mut now = 0;
        for (time, sample) in samples {
            now += time.unwrap_or(0);
            file.extend(fast(sample.ty, 0, time.map(|_| now), &sample.data));
            file.extend(fast(9, DISCARDED, None, b"not this"));
            let line = sample.shown.replacen("CPU", &cpu.to_string(), 1);
            shown.push((now, format!("[{now:020}] {line}")));
        }
        files.push(file);
    }
    shown.sort_by_key(|(time, _)| *time);
    let shown = shown.into_iter().map(|(_, line)| line).collect();
    (Recording::new("fast", FORMATS, &files), shown)
}

fn same(read: &[String], expected: &[String]) {
    // The first difference says more than all lines.
    for (read, expected) in read.iter().zip(expected) {
        assert_eq!(read, expected);
    }
    assert_eq!(read.len(), expected.len());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Every event, every field, and their order.
    #[test]
    fn what_was_recorded_is_read(cpus in prop::collection::vec(cpu(), 1..5)) {
        let (recording, shown) = record(&cpus);
        same(&read(&trace(&recording, &[])), &shown);
    }
}
