// SPDX-License-Identifier: GPL-2.0

//! `ferrotrace report`: text tables, and a page with a timeline.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::common::fail;
use crate::common::ferrotrace;
use crate::common::recording::Recording;
use crate::common::recording::TIMELINE;
use crate::common::recording::call;
use crate::common::recording::fast;
use crate::common::recording::switch;
use crate::common::stdout;
use crate::common::succeed;

/// A type without fields, with a name that would end a script.
const TICK: &str = "name: </script><b>tick\nID: 3\n";

/// CPU 0 runs bash for 6 ms, then cat for 3 ms, and idles for 1 ms. CPU 1 runs a thread with an odd
/// name for 5 ms. Thread 42 makes a call of 4 ms, and within it a second one of 1 ms.
fn recorded() -> Recording {
    let ms = 1_000_000;
    let cpu0 = [
        switch(ms, 0, 41, "bash"),
        call(3 * ms, 42, ms),
        call(5 * ms, 42, 4 * ms),
        switch(7 * ms, 41, 43, "cat"),
        switch(10 * ms, 43, 0, "swapper"),
        fast(3, 0, Some(11 * ms), b""),
    ];
    let cpu1 = [
        switch(ms, 0, 44, "<i>&\"odd"),
        switch(6 * ms, 44, 0, "swapper"),
        fast(3, 0, Some(8 * ms), b""),
    ];
    let formats = format!("{TIMELINE}{TICK}").replace("probe", "vfs_read");
    Recording::new("fast", &formats, &[cpu0.concat(), cpu1.concat()])
}

fn report(recording: &Recording, args: &[&str]) -> Command {
    let mut command = ferrotrace();
    command.arg("report").arg(&recording.dir).args(args);
    command
}

#[test]
fn tables_of_text() {
    let recording = recorded();
    let text = stdout(&succeed(&mut report(&recording, &[])));
    assert_eq!(
        text,
        "\
Records
  type              records
  sched_switch            5
  </script><b>tick        2
  vfs_read                2

CPUs
  cpu  records  lost  slices      busy   share
  0          6     0       2  9.000 ms  90.0 %
  1          3     0       1  5.000 ms  50.0 %

What the CPUs ran
  task         slices     total   share      mean   longest
  bash-41           1  6.000 ms  60.0 %  6.000 ms  6.000 ms
  <i>&\"odd-44       1  5.000 ms  50.0 %  5.000 ms  5.000 ms
  cat-43            1  3.000 ms  30.0 %  3.000 ms  3.000 ms

Calls
  function  calls     total   share      mean   longest
  vfs_read      2  5.000 ms  50.0 %  2.500 ms  4.000 ms

cpu 0: 6 records
cpu 1: 3 records
total: 9 records of 2 CPUs in 0.010000000 s
lost: 0 sub-buffers, unknown records dropped by the kernel
"
    );
    // A time range clips the thread that runs at its end.
    let part = stdout(&succeed(&mut report(
        &recording,
        &["-t", "1", "--cpu", "0", "--to", "0.006"],
    )));
    assert!(
        part.contains("bash-41       1  4.000 ms  100.0 %"),
        "{part}"
    );
    assert!(!part.contains("tick"), "{part}");
    let empty = Recording::new("fast", TIMELINE, &[Vec::new()]);
    let text = stdout(&succeed(&mut report(&empty, &[])));
    assert!(text.starts_with("total: 0 records"), "{text}");
}

/// Returns the text of the script element with this identity.
fn element<'a>(page: &'a str, id: &str) -> &'a str {
    let text = page.split_once(&format!("id=\"{id}\">")).unwrap().1;
    text.split_once("</script>").unwrap().0
}

/// Returns the tables of the data that the page draws.
fn drawing(page: &str) -> Value {
    serde_json::from_str(element(page, "data")).unwrap()
}

/// Returns the stream of items that the page draws.
fn stream(page: &str) -> Vec<u8> {
    const DIGITS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut packed = Vec::new();
    for four in element(page, "items").as_bytes().chunks(4) {
        let digits = four.iter().map(|digit| DIGITS.find(char::from(*digit)));
        let bits = digits
            .clone()
            .fold(0, |bits, digit| bits << 6 | digit.unwrap_or(0));
        let bytes = u32::try_from(bits).unwrap().to_be_bytes();
        packed.extend(&bytes[1..digits.flatten().count()]);
    }
    miniz_oxide::inflate::decompress_to_vec(&packed).unwrap()
}

/// Takes a number from a stream.
fn number(stream: &mut &[u8]) -> u64 {
    let mut number = 0;
    for place in 0.. {
        let (byte, rest) = stream.split_first().unwrap();
        *stream = rest;
        number |= u64::from(byte & 127) << (7 * place);
        if *byte < 128 {
            break;
        }
    }
    number
}

/// Returns the items of a page as texts: track, name, begin, length, and the numbers of its fields.
fn items(page: &str) -> Vec<String> {
    let data = drawing(page);
    let bytes = stream(page);
    let mut at = bytes.as_slice();
    let mut items = Vec::new();
    for track in data["tracks"].as_array().unwrap() {
        let mut from = data["first"].as_i64().unwrap();
        for _ in 0..track["items"].as_u64().unwrap() {
            from += i64::try_from(number(&mut at)).unwrap();
            let length = match number(&mut at) {
                0 => "at once".to_owned(),
                more => format!("+{}", more - 1),
            };
            let name = &data["names"][usize::try_from(number(&mut at)).unwrap()];
            let size = usize::try_from(number(&mut at)).unwrap();
            let (mut of, rest) = at.split_at(size);
            at = rest;
            let mut fields = Vec::new();
            while !of.is_empty() {
                fields.push(number(&mut of));
            }
            let (track, name) = (track["name"].as_str().unwrap(), name.as_str().unwrap());
            items.push(format!("{track}: {name} {from} {length} {fields:?}"));
        }
    }
    assert!(at.is_empty());
    items
}

#[test]
fn a_page_that_needs_nothing_else() {
    let recording = recorded();
    let path = recording.path("page.html");
    let to = path.to_str().unwrap();
    succeed(&mut report(&recording, &["--html", "-o", to]));
    let page = fs::read_to_string(&path).unwrap();
    let message = fail(&mut report(&recording, &["--html", "-o", to]));
    assert!(message.contains("--force"), "{message}");

    // The page forbids loading, and contains no reference to load.
    assert!(page.contains("default-src 'none'"));
    for part in ["http:", "https:", "src=", "href=", "url(", "@import"] {
        assert!(!page.contains(part), "{part}");
    }
    // Names are escaped: they make no tags.
    for part in ["<i>", "<b>"] {
        assert!(!page.contains(part), "{part}");
    }
    assert_eq!(page.matches("<script").count(), 3);
    assert_eq!(page.matches("</script").count(), 3);
    assert!(page.contains("<td>&lt;i&gt;&amp;&quot;odd-44</td>"));
    assert!(page.contains("Recorded on host7, 2023-11-14T22:13:20.000000500Z, boot b007"));

    let data = drawing(&page);
    let tracks = data["tracks"].as_array().unwrap().iter();
    let tracks: Vec<_> = tracks
        .map(|track| track["name"].as_str().unwrap())
        .collect();
    assert_eq!(tracks, ["CPU 0", "CPU 1", "thread 42"]);
    // Fields: the number of the format, the thread with its sign, and the duration.
    assert_eq!(
        items(&page),
        [
            "CPU 0: bash-41 0 +6000000 []",
            "CPU 0: cat-43 6000000 +3000000 []",
            "CPU 0: </script><b>tick 10000000 at once []",
            "CPU 1: <i>&\"odd-44 0 +5000000 []",
            "CPU 1: </script><b>tick 7000000 at once []",
            "thread 42: vfs_read 0 +4000000 [0, 84, 4000000]",
            "thread 42: vfs_read 1000000 +1000000 [0, 84, 1000000]",
        ]
    );
    let formats = serde_json::json!([
        { "name": "vfs_read", "fields": [["pid", "i"], ["duration", "u"]] }
    ]);
    assert_eq!(data["formats"], formats);
    assert_eq!(data["span"], 10_000_000);
    assert_eq!(data["dropped_slices"], 0);

    // A report of an empty recording is a valid page.
    let empty = Recording::new("fast", TIMELINE, &[Vec::new()]);
    let page = stdout(&succeed(&mut report(&empty, &["--html"])));
    assert_eq!(drawing(&page)["tracks"], serde_json::json!([]));
}

/// The widths of frames are the times of calls, without JavaScript.
#[test]
fn flame_graph_of_calls_and_tasks() {
    let recording = recorded();
    let path = recording.path("flame.svg");
    let to = path.to_str().unwrap();
    succeed(&mut report(&recording, &["--svg", to]));
    let svg = fs::read_to_string(&path).unwrap();
    for title in [
        "all: 4.000 ms, 100.00 %",
        "thread 42: 4.000 ms, 100.00 %",
        "vfs_read: 4.000 ms, 100.00 %",
        "vfs_read: 1.000 ms, 25.00 %",
    ] {
        assert_eq!(svg.matches(title).count(), 1, "{title}\n{svg}");
    }
    let message = fail(&mut report(&recording, &["--svg", to]));
    assert!(message.contains("--force"), "{message}");
    let both = report(&recording, &["--svg", to, "-o", "x"]).output();
    assert_eq!(both.unwrap().status.code(), Some(2));
    // Without calls: the tasks of the CPUs.
    succeed(&mut report(
        &recording,
        &["--svg", to, "-f", "--from", "0.006", "--to", "0.009"],
    ));
    let svg = fs::read_to_string(&path).unwrap();
    assert!(svg.contains("cat-43: 1.000 ms, 100.00 %"), "{svg}");
    assert!(!svg.contains("<i>"), "{svg}");
    let empty = Recording::new("fast", TIMELINE, &[Vec::new()]);
    let message = fail(&mut report(&empty, &["--svg", to, "-f"]));
    assert!(
        message.contains("no record has a stack or a duration"),
        "{message}"
    );
}

/// A recording of `slices` tasks on four CPUs, each with a call in it.
fn large(slices: u64) -> Recording {
    let mut files = [const { Vec::new() }; 4];
    for (cpu, file) in files.iter_mut().enumerate() {
        let cpu = u64::try_from(cpu).unwrap();
        for i in 0..slices / 8 {
            let (at, pid) = (
                1_000 * (i + 1) + cpu,
                i32::try_from(100 + (i + cpu) % 7).unwrap(),
            );
            file.extend(switch(at, 0, pid, "worker"));
            file.extend(call(at + 100, pid, 50 + i % 40));
        }
    }
    Recording::new("fast", &TIMELINE.replace("probe", "vfs_read"), &files)
}

/// A recording of `cpus` CPUs, and of as many threads with names and results.
fn wide(cpus: i32) -> Recording {
    let format = "\
name: open
ID: 4
format:
\tfield:s32 pid;\toffset:0;\tsize:4;\tsigned:1;
\tfield:s32 ret;\toffset:4;\tsize:4;\tsigned:1;
\tfield:u64 duration;\toffset:8;\tsize:8;\tsigned:0;
\tfield:char comm[16];\toffset:16;\tsize:16;\tsigned:0;
\tfield:u64 stack[];\toffset:32;\tsize:0;\tsigned:0;
";
    let mut files = Vec::new();
    for cpu in 0..cpus {
        let mut file = Vec::new();
        for i in 0..20 {
            let at = 1_000_000 * (i + 1) + u64::try_from(cpu).unwrap() * 1_000;
            file.extend(switch(at, 0, 1000 + cpu, "</script>\u{1b}x"));
            let ret = if i % 4 == 0 { -2 } else { 3 };
            let mut data = [(1000 + cpu).to_ne_bytes(), i32::to_ne_bytes(ret)].concat();
            data.extend((100_000 + 10_000 * i).to_ne_bytes());
            data.extend(*b"<b>opener</b>\0\0\0");
            for call in [0xffff_ffff_8100_0204_u64, 0xffff_ffff_8100_0108] {
                data.extend(call.to_ne_bytes());
            }
            file.extend(fast(4, 0, Some(at + 300_000), &data));
            file.extend(switch(at + 500_000, 1000 + cpu, 0, "swapper"));
        }
        files.push(file);
    }
    let recording = Recording::new("fast", &format!("{TIMELINE}{format}"), &files);
    let names = "ffffffff81000100 T <do_syscall>\nffffffff81000200 t do_open\n";
    fs::write(recording.dir.join("kallsyms"), names).unwrap();
    recording
}

/// A browser shows the page, and what a user does has its effect: see `page.py`.
#[test]
#[ignore = "needs a browser in FERROTRACE_BROWSER (make check-browser)"]
fn browser_shows_the_page() {
    let recordings = [
        ("small", recorded()),
        ("million", large(1_000_000)),
        ("none", Recording::new("fast", TIMELINE, &[Vec::new()])),
        ("one", wide(1)),
        ("wide", wide(64)),
    ];
    let (_, small) = &recordings[0];
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/page.py");
    let mut python = Command::new("python3");
    python.arg(script).arg(small.path("profile"));
    for (name, recording) in &recordings {
        let page = small.path(&format!("{name}.html"));
        succeed(report(recording, &["--html", "-o"]).arg(&page));
        python.arg(page);
    }
    println!("{}", stdout(&succeed(&mut python)));
}
