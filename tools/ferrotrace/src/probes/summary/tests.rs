// SPDX-License-Identifier: GPL-2.0

use super::super::event::tests::event;
use super::super::model::parse_list;
use super::super::model::tests::LIST;
use super::*;

fn style(by: &[By], timed: Timed) -> Style {
    Style {
        by: by.to_vec(),
        timed,
        value: None,
        interval: Duration::ZERO,
        top: None,
        json: false,
        folded: false,
        lost: None,
    }
}

fn now() -> Now<'static> {
    Now {
        at: Duration::from_millis(2_100),
        dropped: &|| Ok(3),
    }
}

/// Returns the output for these hits of the list's second probe: CPU, time, thread, duration.
fn printed(style: Style, hits: &[(usize, u32, u64, i32, u64)]) -> String {
    let mut probes = parse_list(LIST).unwrap();
    for (index, probe) in probes.iter_mut().enumerate() {
        probe.name = format!("watch.1.{index}");
    }
    let symbols = Symbols::default();
    let mut out = String::new();
    let mut summary = Summary::new(style, &symbols, None, |text: &str| {
        out.push_str(text);
        Ok(true)
    });
    for (probe, cpu, time, pid, duration) in hits {
        let hit = Event {
            cpu: *cpu,
            pid: *pid,
            duration: Some(*duration),
            ..event(*time)
        };
        summary.hit(&hit, &probes[*probe]);
    }
    summary.round(&now()).unwrap();
    summary.finish(3).unwrap();
    out
}

#[test]
fn hits_by_key() {
    let hits = [(0, 0, 1, 42, 0), (1, 0, 2, 43, 0), (0, 1, 3, 42, 0)];
    let out = printed(style(&[By::Place], Timed::No), &hits);
    let table = "      hits  place\n         2  kernel_clone\n         1  do_sys_openat2\n";
    assert_eq!(out.matches(table).count(), 2, "{out}");
    // However long the probes took to come, and take to go.
    assert!(
        out.ends_with("\nin all, 2.1 s: 3 hits, 3 dropped\n"),
        "{out}"
    );
    let mut top = style(&[By::Comm, By::Pid], Timed::No);
    top.top = Some(1);
    let out = printed(top, &hits);
    assert!(
        out.contains("  comm pid\n         2  cat 42\nand 1 more\n"),
        "{out}"
    );
    let out = printed(style(&[By::Arg("x".to_owned())], Timed::No), &hits);
    assert!(out.contains("         3  -\n"), "{out}");
}

#[test]
fn folded_stacks() {
    let hits = [(0, 0, 1, 42, 0), (1, 0, 2, 43, 0), (0, 1, 3, 42, 0)];
    let mut folded = style(&[By::Comm, By::Place], Timed::No);
    folded.folded = true;
    let out = printed(folded, &hits);
    assert_eq!(out, "cat;kernel_clone 2\ncat;do_sys_openat2 1\n");
}

#[test]
fn times() {
    let hits = [
        (1, 0, 1, 42, 5000),
        (1, 0, 2, 43, 1000),
        (1, 1, 3, 42, 7000),
    ];
    let out = printed(style(&[By::Cpu], Timed::Calls), &hits);
    let row = "         2    6.000 us    3.000 us    5.000 us    5.000 us  0\n";
    assert!(out.contains(row), "{out}");
    assert!(
        out.contains("  512 ns - 1.023 us              1  ####################\n"),
        "{out}"
    );
    assert!(
        out.ends_with(
            "    4.096 us - 8.191 us              2  ########################################\n"
        ),
        "{out}"
    );
    let mut json = style(&[By::Cpu], Timed::Calls);
    json.json = true;
    let out = printed(json, &hits);
    let lines: Vec<serde_json::Value> = out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines[0]["rows"][0]["key"]["cpu"], "1");
    assert_eq!(lines[0]["rows"][0]["total_ns"], 7000);
    assert_eq!(lines[1]["summary"]["histogram"][0]["from_ns"], 512);
    assert_eq!(lines[1]["summary"]["hits"], 3);
    assert_eq!(lines[1]["summary"]["dropped"], 3);
}

#[test]
fn between_two_probes() {
    // Of two threads that cross; an end without a beginning, and two ends.
    let hits = [
        (1, 0, 5, 42, 0),
        (0, 0, 10, 42, 0),
        (0, 1, 20, 43, 0),
        (1, 1, 110, 42, 0),
        (1, 1, 115, 42, 0),
        (1, 1, 1020, 43, 0),
    ];
    let out = printed(style(&[By::Pid], Timed::Since(0)), &hits);
    assert!(out.contains("    1.000 us  43\n"), "{out}");
    assert!(out.contains("      100 ns  42\n"), "{out}");
    assert!(out.contains("s: 2 hits, "), "{out}");
}
