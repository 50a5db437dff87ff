// SPDX-License-Identifier: GPL-2.0

//! `ferrotrace relay merge` on recordings of simulated channels.

use std::fs;
use std::fs::File;
use std::io::Read;
use std::process::Command;

use proptest::prelude::*;

use crate::common::Channel;
use crate::common::FORMAT;
use crate::common::RECORD;
use crate::common::fail;
use crate::common::ferrotrace;
use crate::common::record;
use crate::common::recording::DISCARDED;
use crate::common::recording::Recording;
use crate::common::recording::fast;
use crate::common::start;
use crate::common::stderr;
use crate::common::stdout;
use crate::common::succeed;

const QUICK: [&str; 3] = ["--duration", "0.1", "--no-partial"];

fn merge(channel: &Channel, args: &[&str]) -> Command {
    let mut command = ferrotrace();
    command.args(["relay", "merge"]).arg(&channel.out);
    command.args(args);
    command
}

/// Makes a recording of two CPUs with alternating records: times 1 to 200, even ones on CPU 5.
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
    // These files belong to no CPU.
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

    // The message names the cause once.
    fs::write(
        channel.out.join("format"),
        FORMAT.replace("offset:12", "offset:10"),
    )
    .unwrap();
    let message = fail(&mut merge(&channel, &[]));
    assert_eq!(message.matches("overlap").count(), 1, "{message}");

    let mut command = ferrotrace();
    command.args(["relay", "merge", "/nowhere"]);
    assert!(fail(&mut command).contains("/nowhere: no such recording"));
}

/// Bytes that no client wrote give a warning.
#[test]
fn noise_is_not_taken_for_records() {
    let channel = recorded();
    let mut state = 1u64;
    let noise = std::iter::repeat_with(|| {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        state.rotate_left(31).to_ne_bytes()
    });
    let noise: Vec<u8> = noise.take(RECORD / 8 * 100).flatten().collect();
    fs::write(channel.out.join("cpu0"), noise).unwrap();
    let output = succeed(&mut merge(&channel, &["--format", "json"]));
    let summary: serde_json::Value =
        serde_json::from_str(stdout(&output).lines().last().unwrap()).unwrap();
    let impossible = summary["summary"]["impossible"].as_u64().unwrap();
    assert!((70..=100).contains(&impossible), "{impossible}");
    let warning = stderr(&output);
    let expected = format!("{impossible} records claim to be later than the recording");
    assert!(warning.contains(&expected), "{warning}");
    // Times of any clock give no warning.
    let times = [5, 1_000_000_000_000, unix_now()];
    let bytes: Vec<u8> = times
        .iter()
        .flat_map(|&time| record(time, 0, 1, "x"))
        .collect();
    fs::write(channel.out.join("cpu0"), bytes).unwrap();
    assert_eq!(stderr(&succeed(&mut merge(&channel, &[]))), "");
}

fn unix_now() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.unwrap().as_nanos().try_into().unwrap()
}

#[test]
fn a_selection_of_nothing_is_said() {
    let channel = recorded();
    let warned = |args: &[&str]| stderr(&succeed(&mut merge(&channel, args)));
    assert_eq!(warned(&["--cpu", "5"]), "");
    let warning = warned(&["--cpu", "7", "--cpu", "0,2-4"]);
    assert!(
        warning.contains("no records of CPU 7; the CPUs with records are 0, 5")
            && warning.contains("no records of CPU 2-4"),
        "{warning}"
    );
    let warning = warned(&["--from", "5"]);
    assert!(
        warning.contains("no record is selected; their times are 1.000000001 to 1.000000200"),
        "{warning}"
    );
    let message = fail(&mut merge(&channel, &["--from", "5", "--to", "1"]));
    assert!(
        message.contains("--from 5.000000000 is after --to 1.000000000"),
        "{message}"
    );
}

#[test]
fn a_file_is_not_written_over_silently() {
    let channel = recorded();
    let path = channel.dir.join("text");
    let args = ["-o", path.to_str().unwrap(), "--limit", "1"];
    fs::write(&path, "older").unwrap();
    let message = fail(&mut merge(&channel, &args));
    assert!(
        message.contains("exists") && message.contains("--force"),
        "{message}"
    );
    assert_eq!(fs::read(&path).unwrap(), b"older");
    succeed(&mut merge(&channel, &[&args[..], &["-f"]].concat()));
    assert!(fs::read(&path).unwrap().starts_with(b"[000] 1.000000001 "));
    succeed(&mut merge(&channel, &["-o", "/dev/null"]));
}

/// `ferrotrace relay merge | head` ends without an error.
#[test]
fn a_reader_that_leaves_is_no_error() {
    leave(&[]);
    leave(&["--format", "json"]);
}

fn leave(args: &[&str]) {
    let channel = recorded();
    let bytes: Vec<u8> = (0..20_000)
        .flat_map(|time| record(time, 0, 1, "x"))
        .collect();
    fs::write(channel.out.join("cpu0"), bytes).unwrap();
    let mut child = start(&mut merge(&channel, args));
    let mut out = child.stdout.take().unwrap();
    out.read_exact(&mut [0; 10]).unwrap();
    drop(out);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{:?}", output.status);
    assert_eq!(stderr(&output), "");
}

const FAST: &str = "\
name: open
ID: 3
format:
\tfield:u32 flags;\toffset:0;\tsize:4;\tsigned:0;
\tfield:char path[];\toffset:4;\tsize:0;\tsigned:0;

name: tick
ID: 4
";

fn open(flags: u32, path: &[u8]) -> Vec<u8> {
    [&flags.to_ne_bytes()[..], path].concat()
}

#[test]
fn records_of_a_fast_channel() {
    let files = [
        [
            fast(3, 0, Some(1_000_000_010), &open(1, b"/etc")),
            fast(4, 0, None, b""),
            fast(9, DISCARDED, None, b"not this"),
            fast(7, 0, Some(1_000_000_030), &[1, 0xab]),
            fast(3, 0, None, &[5, 6]),
        ]
        .concat(),
        [
            fast(4, 0, None, b"more than described"),
            fast(4, 0, Some(1_000_000_020), b""),
        ]
        .concat(),
    ];
    let recording = Recording::new("fast", FAST, &files);
    let output = succeed(&mut recording.merge(&[]));
    assert_eq!(
        stdout(&output),
        "\
[000] 1.000000010 open: flags=1 path=/etc
[000] 1.000000010 tick:
[001] 1.000000020 tick:
[001] 1.000000020 tick:
[000] 1.000000030 type_7: data=01ab
[000] 1.000000030 type_3: data=0506
cpu 0: 4 records
cpu 1: 2 records
total: 6 records of 2 CPUs in 0.000000020 s
lost: 0 sub-buffers, unknown records dropped by the kernel
"
    );
    let warning = stderr(&output);
    assert!(warning.contains("1 records are shorter than"), "{warning}");

    // Without a description every type is unknown.
    fs::remove_file(recording.dir.join("format")).unwrap();
    let text = stdout(&succeed(&mut recording.merge(&["--limit", "2"])));
    assert!(text.contains("type_3: data=010000002f657463\n"), "{text}");
}

/// A file without any times is sorted first, and does not count for the recording's time span.
#[test]
fn records_that_tell_no_time() {
    let files = [
        [
            fast(4, 0, Some(9_000_000_000), b""),
            fast(4, 0, Some(11_000_000_000), b""),
        ]
        .concat(),
        fast(4, 0, None, b""),
    ];
    let recording = Recording::new("fast", FAST, &files);
    let text = stdout(&succeed(&mut recording.merge(&[])));
    assert!(text.starts_with("[001] 0.000000000 tick:\n"), "{text}");
    let total = "total: 3 records of 2 CPUs in 2.000000000 s\n";
    assert!(text.contains(total), "{text}");
}

#[test]
fn a_fast_file_that_is_damaged() {
    let good = fast(4, 0, Some(10), b"");
    let mut long = fast(4, 0, None, b"");
    long[..4].copy_from_slice(&(1u32 << 20).to_ne_bytes());
    let files = [
        [&good[..], &long, &good].concat(),
        [&good[..], &good[..12]].concat(),
        good[..3].to_vec(),
        Vec::new(),
    ];
    let recording = Recording::new("fast", FAST, &files);
    let output = succeed(&mut recording.merge(&["--format", "json"]));
    let text = stdout(&output);
    assert_eq!(text.lines().count(), 3, "{text}");
    let last: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    let summary = &last["summary"];
    assert_eq!(
        summary["corrupt"],
        serde_json::json!([{"file": "cpu0", "at": 16}])
    );
    let truncated = serde_json::json!([
        {"file": "cpu1", "bytes": 12}, {"file": "cpu2", "bytes": 3}
    ]);
    assert_eq!(summary["truncated"], truncated);
    let warning = stderr(&output);
    assert!(
        warning.contains("cpu0: byte 16 begins no record"),
        "{warning}"
    );
    assert!(
        warning.contains("2 truncated records: cpu1 (12 bytes), cpu2 (3 bytes)"),
        "{warning}"
    );

    for (format, part) in [
        ("name: a\n", "a: has no line \"ID:\""),
        (
            "name: a\nID: 1\nname: b\nID: 1\n",
            "a and b have the same ID 1",
        ),
    ] {
        fs::write(recording.dir.join("format"), format).unwrap();
        let message = fail(&mut recording.merge(&[]));
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn a_selection_leaves_records_out() {
    let channel = recorded();
    let lines = |args: &[&str]| {
        let text = stdout(&succeed(&mut merge(&channel, args)));
        let lines = text.lines().filter(|line| line.starts_with('['));
        let times = lines.map(|line| line[6..17].parse().unwrap());
        times.collect::<Vec<f64>>()
    };
    let (from, to) = ("1.000000100", "1.000000102");
    assert_eq!(
        lines(&["--from", from, "--to", to]),
        [1.0000001, 1.000000101, 1.000000102]
    );
    assert_eq!(lines(&["--from", from]).len(), 101);
    assert_eq!(lines(&["--from", "1.0000002", "--limit", "5"]).len(), 1);
    assert_eq!(lines(&["--to", "1"]).len(), 0);
    let odd = lines(&["--cpu", "0,7", "--to", "1.000000006"]);
    assert_eq!(odd, [1.000000001, 1.000000003, 1.000000005]);
    assert_eq!(lines(&["--cpu", "3-5"]).len(), 100);
    let text = stdout(&succeed(&mut merge(
        &channel,
        &["--cpu", "5", "--from", from],
    )));
    assert!(text.contains("\ntotal: 51 records of 1 CPUs"), "{text}");

    for args in [
        ["--from", "1e3"],
        ["--to", "-"],
        ["--cpu", "5-3"],
        ["--cpu", "x"],
    ] {
        let output = merge(&channel, &args).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}");
    }
}

#[test]
fn output_to_a_file() {
    let channel = recorded();
    let to = |path: &str| merge(&channel, &["-o", path]);
    let dir = tempfile::TempDir::new().unwrap();
    let path = dir.path().join("text");
    let path = path.to_str().unwrap();
    assert_eq!(stdout(&succeed(&mut to(path))), "");
    let printed = stdout(&succeed(&mut merge(&channel, &[])));
    assert_eq!(fs::read_to_string(path).unwrap(), printed);

    let message = fail(&mut to("/dev/full"));
    assert!(
        message.contains("/dev/full: cannot be written: No space left"),
        "{message}"
    );
    let full = File::options().write(true).open("/dev/full").unwrap();
    let message = fail(merge(&channel, &["--format", "json"]).stdout(full));
    assert!(
        message.contains("standard output: cannot be written: No space left"),
        "{message}"
    );
    let message = fail(&mut to(&format!("{path}/x")));
    assert!(message.contains("cannot be created"), "{message}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// Each line is valid JSON with the right values, for any bytes.
    #[test]
    fn json_can_be_parsed(records in prop::collection::vec(any::<([u8; 16], i32, u64)>(), 1..20)) {
        let mut bytes = Vec::new();
        for (time, (comm, pid, addr)) in (0u64..).zip(&records) {
            let start = bytes.len();
            bytes.extend(record(time, 0, *pid, ""));
            bytes[start + 16..start + 32].copy_from_slice(comm);
            bytes[start + 32..].copy_from_slice(&addr.to_ne_bytes());
        }
        let recording = Recording::new("plain", FORMAT, &[bytes]);
        let text = stdout(&succeed(&mut recording.merge(&["--format", "json"])));
        let lines: Vec<serde_json::Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(lines.len(), records.len() + 1);
        for ((comm, pid, addr), line) in records.iter().zip(&lines) {
            assert_eq!(&line["fields"]["pid"], pid);
            assert_eq!(&line["fields"]["addr"], &format!("{addr:#x}"));
            let name = line["fields"]["comm"].as_str().unwrap();
            assert!(!name.contains(char::is_control));
            if comm.iter().all(u8::is_ascii_graphic) {
                assert_eq!(name.as_bytes(), comm);
            }
        }
    }
}

/// Merges 400 MiB of 200 CPUs with little memory.
#[test]
fn memory_is_bounded() {
    let format = "\
name: large
field:u64 time;\toffset:0;\tsize:8;\tsigned:0;
field:char data[2040];\toffset:8;\tsize:2040;\tsigned:0;
";
    let recording = Recording::new("plain", format, &vec![Vec::new(); 200]);
    for cpu in 0..200 {
        let file = recording.dir.join(format!("cpu{cpu}"));
        // A hole in the file reads as a sequence of records.
        File::options()
            .write(true)
            .open(file)
            .unwrap()
            .set_len(2 << 20)
            .unwrap();
    }
    let trace = recording.path("trace");
    let trace = trace.to_str().unwrap();
    for args in [&["-o", "/dev/null"][..], &["--format", "ctf", "-o", trace]] {
        let merge = recording.merge(args);
        let mut command = Command::new("prlimit");
        // A low soft limit on open files is no problem either.
        command.args(["--as=80000000", "--nofile=100:4096"]);
        command.arg(merge.get_program()).args(merge.get_args());
        succeed(&mut command);
    }
    let text = stdout(&succeed(&mut recording.merge(&["--limit", "0"])));
    assert!(text.contains("total: 204800 records of 200 CPUs"), "{text}");
}
