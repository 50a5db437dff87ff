// SPDX-License-Identifier: GPL-2.0

//! Fast channels: `ferrotrace relay stat` on simulated buffers.

use std::fs;
use std::io::BufRead;
use std::io::BufReader;

use crate::common::fast::Channel;
use crate::common::fast::SMALL;
use crate::common::fast::numbered;
use crate::common::fast::write;
use crate::common::start;
use crate::common::stdout;
use crate::common::succeed;
use ferrotrace::fast::ring::abi;

/// The lines of `stat --json`.
fn stats(output: &[u8]) -> Vec<serde_json::Value> {
    let text = std::str::from_utf8(output).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn stat_shows_occupancy_and_losses() {
    let channel = Channel::new();
    let mut cpu0 = channel.cpu(0, SMALL);
    let mut cpu3 = channel.cpu(3, SMALL);
    while cpu0.write(numbered(5), 0) {}
    write(&mut cpu3, 0..3);
    cpu3.set(abi::CONSUMER, 40);
    cpu3.set(abi::OVERWRITTEN, 17);
    let complete = cpu3.position();
    let slot = cpu3.reserve(numbered(3)).unwrap();

    let stat = stats(&succeed(&mut channel.command("stat", &["--json"])).stdout);
    assert_eq!(stat.len(), 1);
    let stat = &stat[0];
    assert_eq!(stat["records"], "fast");
    assert_eq!(stat["unit"], "bytes");
    assert_eq!(stat["dropped"], 1);
    let cpus = &stat["cpus"];
    assert_eq!(cpus[0]["produced"], cpu0.position());
    assert_eq!(cpus[0]["unread"], cpu0.position());
    assert_eq!(cpus[0]["lost"], 1);
    assert_eq!(cpus[1]["cpu"], 3);
    assert_eq!(cpus[1]["produced"], cpu3.position());
    assert_eq!(cpus[1]["committed"], complete);
    assert_eq!(cpus[1]["consumed"], 40);
    assert_eq!(cpus[1]["unread"], complete - 40);
    assert_eq!(cpus[1]["overwritten"], 17);
    assert_eq!(cpus[1]["closed"], false);
    assert_eq!(cpus[1]["rate"], serde_json::Value::Null);
    assert_eq!(cpu0.consumed(), 0, "looking changes nothing");
    cpu3.fill(&slot, 0);
    cpu3.commit();

    let text = stdout(&succeed(&mut channel.command("stat", &[])));
    let row: Vec<_> = text.lines().nth(2).unwrap().split_whitespace().collect();
    let full = cpu0.position();
    let percent = format!(
        "{}",
        f64::from(u32::try_from(full * 1000 / 1024).unwrap()) / 10.0
    );
    let full = full.to_string();
    assert_eq!(
        row,
        [
            "0", &full, &full, "0", &full, &percent, "1", "0", &full, "-"
        ]
    );
}

/// Repeats until the count is reached, the channel is closed, or the reader of its output exits.
#[test]
fn stat_repeats() {
    let channel = Channel::new();
    let mut cpu = channel.cpu(0, SMALL);
    let args = ["--json", "--count", "3", "--interval", "0.05"];
    let output = succeed(&mut channel.command("stat", &args));
    assert_eq!(stats(&output.stdout).len(), 3);

    let mut child = start(&mut channel.command("stat", &["--json", "--interval", "0.05"]));
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || -> Option<serde_json::Value> {
        let line = lines.next()?.unwrap();
        Some(serde_json::from_str(&line).unwrap())
    };
    assert_eq!(next().unwrap()["cpus"][0]["produced"], 0);
    write(&mut cpu, 0..4);
    let seen = std::iter::from_fn(&mut next).find(|line| line["cpus"][0]["produced"] != 0);
    let seen = seen.unwrap();
    assert!(seen["cpus"][0]["rate"].as_u64() > Some(0), "{seen}");
    cpu.close();
    let last = std::iter::from_fn(&mut next).last().unwrap();
    assert_eq!(last["cpus"][0]["produced"], cpu.position());
    assert_eq!(last["cpus"][0]["closed"], true);
    assert!(child.wait().unwrap().success());

    cpu.set(abi::CLOSED, 0);
    let mut child = start(&mut channel.command("stat", &["--interval", "0.05"]));
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());

    let mut child = start(&mut channel.command("stat", &["--interval", "0.05"]));
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    lines.next().unwrap().unwrap();
    fs::remove_file(channel.file(0)).unwrap();
    assert!(lines.all(|line| line.is_ok()));
    assert!(child.wait().unwrap().success());
}
