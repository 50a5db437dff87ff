// SPDX-License-Identifier: GPL-2.0

//! Commands that run during a recording, units, and options that all commands share.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::Instant;

use serde_json::Value;

use crate::common::Channel;
use crate::common::FORMAT;
use crate::common::PATIENCE;
use crate::common::exists;
use crate::common::fast;
use crate::common::ferrotrace;
use crate::common::interrupt;
use crate::common::recording::Recording;
use crate::common::start;
use crate::common::stderr;
use crate::common::stdout;
use crate::common::succeed;
use crate::common::wait;

/// Returns `relay record -- COMMAND` of an idle channel.
fn record(channel: &Channel, args: &[&str], command: &[&str]) -> Command {
    let mut record = channel.record(&["--no-partial"]);
    record.args(args).arg("--").args(command);
    record
}

fn channel() -> Channel {
    let channel = Channel::new("no-overwrite", 0);
    channel.cpu(0, 0).finish(b"data");
    channel
}

/// Metadata of an untrusted recording names only files of its directory. The descriptions of
/// thousands of types are all read.
#[test]
fn what_a_recording_names_and_how_much_it_describes() {
    let types: String = (0..20_000)
        .map(|n| {
            format!("name: event_number_{n}\nID: {n}\nformat:\n\tfield:u64 value;\toffset:0;\tsize:8;\tsigned:0;\n")
        })
        .collect();
    assert!(types.len() > 1 << 20);
    let record = crate::common::recording::fast(19_999, 0, Some(500), &[7, 0, 0, 0, 0, 0, 0, 0]);
    let recording = Recording::new("fast", &types, &[record]);
    let text = stdout(&succeed(&mut recording.merge(&[])));
    assert!(text.contains(" event_number_19999: value=7\n"), "{text}");

    fs::write(recording.path("secret"), "secret").unwrap();
    let mut metadata = recording.metadata();
    for elsewhere in ["../secret", "/etc/passwd", "..", ""] {
        metadata["cpus"][0]["file"] = elsewhere.into();
        recording.write_metadata(&metadata);
        let message = crate::common::fail(&mut recording.merge(&[]));
        assert!(
            message.contains("not the name of a file of the directory"),
            "{message}"
        );
    }
}

/// A recording of another user shows no other file, and does not make its reader wait.
#[test]
fn a_recording_of_links_and_fifos() {
    let record = crate::common::recording::fast(1, 0, Some(500), b"secret..");
    for name in ["cpu0", "format", "metadata.json", "kallsyms"] {
        let recording = Recording::new("fast", "", std::slice::from_ref(&record));
        let (path, elsewhere) = (recording.dir.join(name), recording.path("elsewhere"));
        let refused = |expected: &str| {
            let message = crate::common::fail(&mut recording.merge(&[]));
            assert!(message.contains(expected), "{name}: {message}");
        };
        let _ = fs::rename(&path, &elsewhere);
        std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
        match name {
            // Without kallsyms the report has numbers.
            "kallsyms" => drop(succeed(&mut recording.merge(&[]))),
            _ => refused("a symbolic link, which is not followed"),
        }
        fs::remove_file(&path).unwrap();
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        match name {
            "kallsyms" => drop(succeed(&mut recording.merge(&[]))),
            _ => refused("not a regular file"),
        }
    }
}

#[test]
fn the_exit_status_is_that_of_the_command() {
    for (script, status) in [("exit 0", 0), ("exit 7", 7), ("kill -KILL $$", 128 + 9)] {
        let channel = channel();
        let output = record(&channel, &[], &["sh", "-c", script])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(status), "{}", stderr(&output));
        assert_eq!(channel.metadata()["stop"], "command");
        assert_eq!(channel.recorded(0), b"data");
        assert!(stdout(&output).contains("total  : "));
    }
    let channel = channel();
    let output = record(&channel, &[], &["/nowhere/command", "x"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(127));
    let message = stderr(&output);
    assert!(
        message.contains("ferrotrace: /nowhere/command: cannot be run: "),
        "{message}"
    );
}

/// The command runs during the recording, sees its own options and streams, and has no signals
/// blocked.
#[test]
fn the_command_is_left_alone() {
    let channel = channel();
    let script = "test -e \"$1\" && grep SigBlk /proc/self/status && echo \"$2\"";
    let metadata = channel.out.join("metadata.json");
    let metadata = metadata.to_str().unwrap();
    let command = ["sh", "-c", script, "sh", metadata, "--duration"];
    let output = record(&channel, &[], &command).output().unwrap();
    let text = stdout(&output);
    assert!(output.status.success(), "{text}");
    assert!(
        text.starts_with("SigBlk:\t0000000000000000\n--duration\n"),
        "{text}"
    );
}

#[test]
fn a_signal_or_the_time_ends_the_command_too() {
    for by_time in [false, true] {
        let channel = channel();
        let began = Instant::now();
        let args: &[&str] = if by_time { &["-d", "300ms"] } else { &[] };
        let child = start(&mut record(&channel, args, &["sleep", "1000"]));
        if !by_time {
            wait(|| exists(&channel.out.join("metadata.json")));
            // The command starts after that.
            channel.wait_for(0, 4);
            interrupt(&child);
        }
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(128 + 15), "{}", stderr(&output));
        let stop = if by_time { "duration" } else { "signal" };
        assert_eq!(channel.metadata()["stop"], stop);
        assert!(began.elapsed() < PATIENCE);
    }
}

#[test]
fn sizes_and_times_have_units() {
    let channel = channel();
    for control in ["subbuf_size", "n_subbufs"] {
        fs::remove_file(channel.dir.join(control)).unwrap();
    }
    succeed(&mut channel.record(&["-b", "4K", "-n", "4", "-d", "100ms", "--no-partial"]));
    assert_eq!(channel.metadata()["subbuf_size"], 4096);
    assert_eq!(channel.recorded(0), b"data");
}

#[test]
fn channels_are_found() {
    let compatible = channel();
    let fast = fast::Channel::new();
    drop(fast.cpu(0, fast::SMALL));
    drop(fast.cpu(1, fast::SMALL));
    let root = compatible.dir.parent().unwrap();
    fs::create_dir_all(root.join("deep/er")).unwrap();
    // A fast channel has no other files. As in the kernel, root may write to them.
    for cpu in ["cpu0", "cpu1"] {
        let to = root.join("deep/er").join(cpu);
        fs::copy(fast.root.path().join("relay").join(cpu), &to).unwrap();
        fs::set_permissions(&to, fs::Permissions::from_mode(0o600)).unwrap();
    }
    // These files belong to no channel.
    fs::write(root.join("deep/version7"), "7").unwrap();
    fs::create_dir(root.join("deep/cpu9")).unwrap();
    let list = |args: &[&str]| {
        let mut command = ferrotrace();
        command
            .args(["relay", "list", "--dir"])
            .arg(root)
            .args(args);
        command
    };
    let text = stdout(&succeed(&mut list(&["--json"])));
    let value: Value = serde_json::from_str(&text).unwrap();
    let found: Vec<_> = value["channels"]
        .as_array()
        .unwrap()
        .iter()
        .map(|channel| {
            (
                channel["records"].as_str().unwrap(),
                channel["cpus"].as_array().unwrap().len(),
            )
        })
        .collect();
    assert_eq!(found, [("fast", 2), ("plain", 1)]);
    let text = stdout(&succeed(&mut list(&[])));
    assert_eq!(text.lines().count(), 3, "{text}");
    assert!(text.contains("relay/cpu    compatible"), "{text}");

    // To a file, but not over one.
    let file = root.join("list");
    let args = ["-o", file.to_str().unwrap()];
    assert_eq!(stdout(&succeed(&mut list(&args))), "");
    assert_eq!(fs::read_to_string(&file).unwrap(), text);
    assert!(crate::common::fail(&mut list(&args)).contains("--force"));
    succeed(&mut list(&[&args[..], &["-f"]].concat()));
}

#[test]
fn dates_instead_of_times() {
    let bytes = crate::common::record(400, 0, 1, "x");
    let recording = Recording::new("plain", FORMAT, &[bytes]);
    let text = stdout(&succeed(&mut recording.merge(&["--wall"])));
    assert!(
        text.starts_with("[000] 2023-11-14T22:13:20.000000500Z sample: "),
        "{text}"
    );
    let text = stdout(&succeed(&mut recording.merge(&["--wall", "--json"])));
    assert!(
        text.contains(r#""time":400,"wall":"2023-11-14T22:13:20.000000500Z""#),
        "{text}"
    );
    let mut metadata = recording.metadata();
    metadata["start_monotonic_ns"] = 0.into();
    recording.write_metadata(&metadata);
    let message = crate::common::fail(&mut recording.merge(&["--wall"]));
    assert!(message.contains("--wall"), "{message}");
}
