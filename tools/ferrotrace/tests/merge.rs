// SPDX-License-Identifier: GPL-2.0

//! `ferrotrace relay merge` on what `record` made of simulated channels.

#![allow(missing_docs, clippy::unwrap_used, clippy::indexing_slicing)]

mod common;

use std::fs;
use std::io::Read;
use std::process::Command;

use common::Channel;
use common::FORMAT;
use common::RECORD;
use common::fail;
use common::ferrotrace;
use common::record;
use common::start;
use common::stderr;
use common::stdout;
use common::succeed;

const QUICK: [&str; 3] = ["--duration", "0.1", "--no-partial"];

fn merge(channel: &Channel, args: &[&str]) -> Command {
    let mut command = ferrotrace();
    command.args(["relay", "merge"]).arg(&channel.out);
    command.args(args);
    command
}

/// Two CPUs whose records alternate: times 1 to 200, even ones on CPU 5.
fn recorded() -> Channel {
    let channel = Channel::new("no-overwrite", 0);
    let mut cpus = [channel.cpu(0, 0), channel.cpu(5, 0)];
    for (i, cpu) in cpus.iter_mut().enumerate() {
        let number = if i == 0 { 0 } else { 5 };
        for half in 0..2 {
            let bytes: Vec<u8> = (0..50)
                .map(|j| 1 + 2 * (half * 50 + j) + u64::try_from(i).unwrap())
                .flat_map(|time| {
                    let pid = -i32::try_from(time).unwrap();
                    record(time + 1_000_000_000, number, pid, "worker")
                })
                .collect();
            cpu.finish(&bytes);
        }
    }
    succeed(&mut channel.record(&QUICK));
    channel
}

#[test]
fn records_come_in_the_order_of_time() {
    let channel = recorded();
    let output = succeed(&mut merge(&channel, &[]));
    let text = stdout(&output);
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(
        lines[0],
        "[000] 1.000000001 sample: pid=-1 comm=worker addr=0xffff800000001000"
    );
    for (i, line) in lines[..200].iter().enumerate() {
        let cpu = if i % 2 == 0 { "[000]" } else { "[005]" };
        let start = format!("{cpu} 1.{:09} sample: pid=-{}", i + 1, i + 1);
        assert!(line.starts_with(&start), "{line}");
    }
    assert_eq!(
        lines[200..],
        [
            "cpu 0: 100 records",
            "cpu 5: 100 records",
            "total: 200 records of 2 CPUs in 0.000000199 s",
            "lost: 0 sub-buffers, 0 records dropped by the kernel",
        ]
    );
    assert_eq!(stderr(&output), "");
}

#[test]
fn a_limit_shortens_the_text_and_not_the_counts() {
    let channel = recorded();
    let text = stdout(&succeed(&mut merge(&channel, &["--limit", "3"])));
    assert_eq!(text.lines().count(), 3 + 4);
    assert!(text.contains("total: 200 records"), "{text}");
    let text = stdout(&succeed(&mut merge(&channel, &["--limit", "0"])));
    assert!(text.starts_with("cpu 0: 100 records\n"), "{text}");
}

#[test]
fn json_has_one_object_a_line() {
    let channel = recorded();
    let text = stdout(&succeed(&mut merge(&channel, &["--format", "json"])));
    let lines: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 201);
    assert_eq!(lines[1]["cpu"], 5);
    assert_eq!(lines[1]["time"], 1_000_000_002);
    assert_eq!(lines[1]["name"], "sample");
    assert_eq!(lines[1]["fields"]["pid"], -2);
    assert_eq!(lines[1]["fields"]["comm"], "worker");
    assert_eq!(lines[200]["summary"]["total"], 200);
    assert_eq!(lines[200]["summary"]["cpus"]["5"], 100);
}

#[test]
fn without_a_cpu_field_the_file_tells() {
    let channel = recorded();
    let format = FORMAT.replace("field:u32 cpu;", "field:u32 other;");
    fs::write(channel.out.join("format"), format).unwrap();
    let text = stdout(&succeed(&mut merge(&channel, &[])));
    assert!(text.contains("[005] 1.000000002 sample: other=5"), "{text}");
    assert!(text.contains("cpu 5: 100 records"), "{text}");
}

#[test]
fn a_truncated_record_is_a_warning() {
    let channel = recorded();
    let path = channel.out.join("cpu5");
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..RECORD + 7]).unwrap();
    let output = succeed(&mut merge(&channel, &[]));
    assert!(stdout(&output).contains("cpu 5: 1 records"));
    let warning = stderr(&output);
    assert!(
        warning.contains("1 truncated records: cpu5 (7 bytes)"),
        "{warning}"
    );
}

#[test]
fn an_interrupted_recording_can_be_read() {
    let channel = recorded();
    let path = channel.out.join("metadata.json");
    let mut metadata = channel.metadata();
    metadata["complete"] = false.into();
    metadata["cpus"] = serde_json::json!([]);
    fs::write(&path, metadata.to_string()).unwrap();
    // These are not files of CPUs.
    fs::write(channel.out.join("cpu5.bak"), "x").unwrap();
    let output = succeed(&mut merge(&channel, &[]));
    assert!(stdout(&output).contains("total: 200 records of 2 CPUs"));
    assert!(stderr(&output).contains("did not come to its end"));
}

#[test]
fn an_empty_recording_has_no_records() {
    let channel = Channel::new("no-overwrite", 0);
    drop(channel.cpu(0, 0));
    succeed(&mut channel.record(&QUICK));
    let text = stdout(&succeed(&mut merge(&channel, &[])));
    assert!(text.contains("total: 0 records"), "{text}");
}

#[test]
fn disorder_beyond_the_window_is_reported() {
    let channel = Channel::new("no-overwrite", 0);
    drop(channel.cpu(0, 0));
    succeed(&mut channel.record(&QUICK));
    let times = (10..3000u64).chain([5]);
    let bytes: Vec<u8> = times.flat_map(|time| record(time, 0, 1, "x")).collect();
    fs::write(channel.out.join("cpu0"), bytes).unwrap();
    let output = succeed(&mut merge(&channel, &["--limit", "1"]));
    assert!(stdout(&output).contains("total: 2991 records"));
    let warning = stderr(&output);
    assert!(warning.contains("1 records are earlier"), "{warning}");
}

#[test]
fn a_recording_that_is_none() {
    let channel = recorded();
    let check = |file: &str, content: Option<&[u8]>, part: &str| {
        let path = channel.out.join(file);
        let before = fs::read(&path).unwrap();
        match content {
            Some(content) => fs::write(&path, content).unwrap(),
            None => fs::remove_file(&path).unwrap(),
        }
        let message = fail(&mut merge(&channel, &[]));
        assert!(message.contains(part), "{message}");
        fs::write(&path, before).unwrap();
    };
    check("metadata.json", None, "not a recording");
    check(
        "metadata.json",
        Some(b"{}"),
        "metadata.json: not understood",
    );
    check("metadata.json", Some(b"\xff\x00"), "not understood");
    let newer = channel
        .metadata()
        .to_string()
        .replace("\"version\":2", "\"version\":3");
    check("metadata.json", Some(newer.as_bytes()), "newer");
    check("cpu0", None, "cpu0: cannot be read");
    check("format", None, "format: missing");
    check("format", Some(b"\xff\x00junk"), "describes no field");
    for (from, to, part) in [
        ("offset:12", "offset:10", "fields cpu and pid overlap"),
        ("offset:12;\tsize:4", "offset:12;\tsize:0", "size is zero"),
        ("size:16", "size:99999999999", "beyond"),
        ("offset:32", "offset:18446744073709551615", "beyond"),
        ("offset:32", "offset:4096", "do not fit into sub-buffers"),
        ("u64 time", "u64 when", "no field named time"),
        ("size:16", "size:x", "line 7"),
    ] {
        let lie = FORMAT.replacen(from, to, 1);
        assert_ne!(lie, FORMAT);
        check("format", Some(lie.as_bytes()), part);
    }

    let mut command = ferrotrace();
    command.args(["relay", "merge", "/nowhere"]);
    assert!(fail(&mut command).contains("/nowhere: no such recording"));
}

/// `ferrotrace relay merge | head` has had enough after a few lines.
#[test]
fn a_reader_that_leaves_is_no_error() {
    let channel = recorded();
    let bytes: Vec<u8> = (0..20_000)
        .flat_map(|time| record(time, 0, 1, "x"))
        .collect();
    fs::write(channel.out.join("cpu0"), bytes).unwrap();
    let mut child = start(&mut merge(&channel, &[]));
    let mut out = child.stdout.take().unwrap();
    out.read_exact(&mut [0; 10]).unwrap();
    drop(out);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{:?}", output.status);
    assert_eq!(stderr(&output), "");
}
