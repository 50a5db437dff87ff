// SPDX-License-Identifier: GPL-2.0

//! Records with call stacks, in all formats.

use std::fs;

use serde_json::Value;

use crate::common::ferrotrace;
use crate::common::readers::python;
use crate::common::recording::Recording;
use crate::common::recording::fast;
use crate::common::stdout;
use crate::common::succeed;

const FORMAT: &str = "\
name: open
ID: 4
format:
\tfield:s32 pid;\toffset:0;\tsize:4;\tsigned:1;
\tfield:u64 stack[];\toffset:8;\tsize:0;\tsigned:0;
";

const KALLSYMS: &str = "\
ffffffff81000100 T do_syscall
ffffffff81000200 t do_open
";

/// Makes two records of thread 7: one with two kernel frames and a frame of a missing file, one
/// without a stack.
fn recorded() -> Recording {
    let mut data = 7_i32.to_ne_bytes().to_vec();
    data.extend([0; 4]);
    let none = fast(4, 0, Some(2_000), &data);
    for call in [0xffff_ffff_8100_0204_u64, 0xffff_ffff_8100_0108, 0x1010] {
        data.extend(call.to_ne_bytes());
    }
    let some = fast(4, 0, Some(1_000), &data);
    let recording = Recording::new("fast", FORMAT, &[[some, none].concat()]);
    fs::write(recording.dir.join("kallsyms"), KALLSYMS).unwrap();
    let maps = "threads 7 8\n1000-2000 r-xp 00003000 00:00 1 /nonexistent/prog\n";
    fs::write(recording.dir.join("maps"), maps).unwrap();
    recording
}

const STACK: &str = "0x3010 [prog];do_syscall;do_open";

fn exported(recording: &Recording, format: &str) -> String {
    let path = recording.path(format);
    let mut command = ferrotrace();
    command.arg("export").arg(&recording.dir);
    succeed(command.args(["--format", format, "-o"]).arg(&path));
    path.to_str().unwrap().to_owned()
}

#[test]
fn text_has_names() {
    let recording = recorded();
    let text = stdout(&succeed(&mut recording.merge(&[])));
    let expected = format!(
        "[000] 0.000001000 open: pid=7 stack={STACK}\n[000] 0.000002000 open: pid=7 stack=\n"
    );
    assert!(text.starts_with(&expected), "{text}");
    let json = stdout(&succeed(&mut recording.merge(&["--json"])));
    let first: Value = serde_json::from_str(json.lines().next().unwrap()).unwrap();
    assert!(first.to_string().contains(STACK), "{first}");
    // Without kallsyms and maps, frames are addresses.
    fs::remove_file(recording.dir.join("kallsyms")).unwrap();
    fs::remove_file(recording.dir.join("maps")).unwrap();
    let text = stdout(&succeed(&mut recording.merge(&[])));
    assert!(
        text.contains(" stack=0x1010;0xffffffff81000108;0xffffffff81000204\n"),
        "{text}"
    );
    // The other formats have stacks as text.
    for format in ["ctf", "ctf2", "chrome"] {
        exported(&recording, format);
    }
}

#[test]
fn flame_graph_has_stacks() {
    let recording = recorded();
    let path = recording.path("flame.svg");
    let mut command = ferrotrace();
    command.arg("report").arg(&recording.dir);
    succeed(command.arg("--svg").arg(&path));
    let svg = fs::read_to_string(&path).unwrap();
    // One of two records has a stack.
    for title in [
        "all: 2 hits",
        "0x3010 [prog]: 1 hit, 50.00 %",
        "do_open: 1 hit, 50.00 %",
    ] {
        assert!(svg.contains(&format!("<title>{title}")), "{title}\n{svg}");
    }
}

#[test]
fn firefox_has_samples() {
    let recording = recorded();
    let profile = fs::read_to_string(exported(&recording, "firefox")).unwrap();
    let profile: Value = serde_json::from_str(&profile).unwrap();
    let threads = profile["threads"].as_array().unwrap();
    let thread = threads
        .iter()
        .find(|thread| thread["name"] == "CPU 0")
        .unwrap();
    let samples = &thread["samples"]["stack"];
    assert_eq!(samples.as_array().unwrap().len(), 2, "{samples}");
    assert_eq!(samples[1], Value::Null);
    // Frames from the innermost call outwards.
    let strings = profile["shared"]["stringArray"].as_array();
    let strings = strings.or(thread["stringArray"].as_array()).unwrap();
    let mut at = samples[0].as_u64();
    let mut names = Vec::new();
    while let Some(stack) = at.and_then(|stack| usize::try_from(stack).ok()) {
        let frame =
            usize::try_from(thread["stackTable"]["frame"][stack].as_u64().unwrap()).unwrap();
        let func = usize::try_from(thread["frameTable"]["func"][frame].as_u64().unwrap()).unwrap();
        let name = usize::try_from(thread["funcTable"]["name"][func].as_u64().unwrap()).unwrap();
        names.push(strings[name].as_str().unwrap());
        at = thread["stackTable"]["prefix"][stack].as_u64();
    }
    names.reverse();
    assert_eq!(names.join(";"), STACK);
}

/// Reads a trace by Perfetto's own description of its format.
const READER: &str = r#"
import sys
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as p
trace = p.Trace()
trace.ParseFromString(open(sys.argv[1], "rb").read())
for packet in trace.packet:
    if packet.HasField("track_event"):
        print(";".join(frame.function_name for frame in packet.track_event.callstack.frames))
"#;

#[test]
#[ignore = "needs the readers of make setup"]
fn perfetto_has_call_stacks() {
    let recording = recorded();
    let path = exported(&recording, "perfetto");
    assert_eq!(python(READER, &[&path]), format!("{STACK}\n\n"));
}
