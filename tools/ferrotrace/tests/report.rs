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
use crate::common::stderr;
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

/// Returns the data that the page draws.
fn drawing(page: &str) -> Value {
    let data = page.split_once("id=\"data\">").unwrap().1;
    serde_json::from_str(data.split_once("</script>").unwrap().0).unwrap()
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
    assert_eq!(page.matches("<script").count(), 2);
    assert_eq!(page.matches("</script").count(), 2);
    assert!(page.contains("<td>&lt;i&gt;&amp;&quot;odd-44</td>"));
    assert!(page.contains("Recorded on host7, 2023-11-14T22:13:20.000000500Z, boot b007"));

    let data = drawing(&page);
    let strings = |value: &Value| -> Vec<String> {
        let values = value.as_array().unwrap().iter();
        values
            .map(|value| value.as_str().unwrap().to_owned())
            .collect()
    };
    let names = strings(&data["names"]);
    let tracks = data["tracks"].as_array().unwrap().iter();
    let tracks: Vec<_> = tracks
        .map(|track| track["name"].as_str().unwrap())
        .collect();
    assert_eq!(tracks, ["CPU 0", "CPU 1", "thread 42"]);
    let index = |value: &Value| usize::try_from(value.as_u64().unwrap()).unwrap();
    let slices = data["slices"].as_array().unwrap().iter();
    let slices: Vec<_> = slices
        .map(|slice| {
            let (track, name) = (tracks[index(&slice[0])], &names[index(&slice[3])]);
            format!("{track}: {name} {} +{}", slice[1], slice[2])
        })
        .collect();
    assert_eq!(
        slices,
        [
            "CPU 0: bash-41 0 +6000000",
            "CPU 0: cat-43 6000000 +3000000",
            "CPU 1: <i>&\"odd-44 0 +5000000",
            "thread 42: vfs_read 0 +4000000",
            "thread 42: vfs_read 1000000 +1000000",
        ]
    );
    let instants = data["instants"].as_array().unwrap();
    assert_eq!(instants.len(), 2);
    assert_eq!(
        (index(&instants[0][0]), instants[0][1].as_u64()),
        (1, Some(7_000_000))
    );
    assert_eq!(
        (&data["origin"], &data["span"]),
        (&"1000000".into(), &10_000_000.into())
    );
    assert_eq!(data["dropped_slices"], 0);

    // A report of an empty recording is a valid page.
    let empty = Recording::new("fast", TIMELINE, &[Vec::new()]);
    let page = stdout(&succeed(&mut report(&empty, &["--html"])));
    assert_eq!(drawing(&page)["tracks"], serde_json::json!([]));
}

/// Counts the pixels of each colour that is not grey, most frequent first.
const COLOURS: &str = r#"
import sys, zlib
from collections import Counter
data, at, idat = open(sys.argv[1], "rb").read(), 8, b""
while at < len(data):
    size, kind = int.from_bytes(data[at:at + 4], "big"), data[at + 4:at + 8]
    body = data[at + 8:at + 8 + size]
    if kind == b"IHDR":
        width, height, depth, colour = int.from_bytes(body[:4], "big"), int.from_bytes(body[4:8], "big"), body[8], body[9]
        bytes_each = {2: 3, 6: 4}[colour]
        assert depth == 8
    idat += body if kind == b"IDAT" else b""
    at += 12 + size
raw, line = zlib.decompress(idat), width * bytes_each
before, counts = bytearray(line), Counter()
for y in range(height):
    how, now = raw[y * (line + 1)], bytearray(raw[y * (line + 1) + 1:(y + 1) * (line + 1)])
    for x in range(line):
        a = now[x - bytes_each] if x >= bytes_each else 0
        b, c = before[x], before[x - bytes_each] if x >= bytes_each else 0
        p = a + b - c
        paeth = min((abs(p - a), 0, a), (abs(p - b), 1, b), (abs(p - c), 2, c))[2]
        now[x] = (now[x] + [0, a, b, (a + b) // 2, paeth][how]) & 255
    before = now
    for x in range(0, line, bytes_each):
        pixel = tuple(now[x:x + 3])
        if max(pixel) - min(pixel) > 30:
            counts[pixel] += 1
for colour, count in counts.most_common(4):
    print(count)
"#;

/// A browser draws the timeline: slices have colours, and areas in proportion to their durations.
#[test]
#[ignore = "needs a browser in FERROTRACE_BROWSER (make check-browser)"]
fn browser_draws_the_timeline() {
    let browser = std::env::var_os("FERROTRACE_BROWSER").unwrap();
    let recording = recorded();
    let page = recording.path("page.html");
    succeed(report(&recording, &["--html", "-o"]).arg(&page));
    let picture = recording.path("page.png");
    let run = |more: &str| {
        let mut command = Command::new(&browser);
        command.args([
            "--no-sandbox",
            "--disable-gpu",
            "--window-size=1200,800",
            more,
        ]);
        command.arg(format!(
            "--user-data-dir={}",
            recording.path("profile").display()
        ));
        let output = command
            .arg(format!("file://{}", page.display()))
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        stdout(&output)
    };
    // Five slices and two instants.
    let dom = run("--dump-dom");
    assert!(dom.contains("data-drawn=\"7\""), "{dom}");
    run(&format!("--screenshot={}", picture.display()));
    let mut python = Command::new("python3");
    let counts = stdout(&succeed(python.args(["-c", COLOURS]).arg(&picture)));
    let counts: Vec<f64> = counts.lines().map(|line| line.parse().unwrap()).collect();
    // bash 6 ms, both calls 4 + 1 ms, the odd thread 5 ms, cat 3 ms; names cover some pixels.
    let unit = counts[0] / 6.0;
    assert!(unit > 500.0, "{counts:?}");
    for (count, ms) in counts.iter().zip([6.0, 5.0, 5.0, 3.0]) {
        let found = count / unit;
        assert!((found - ms).abs() < 0.5, "{counts:?}");
    }
    if let Some(keep) = std::env::var_os("FERROTRACE_PICTURE") {
        fs::copy(&picture, keep).unwrap();
    }
}
