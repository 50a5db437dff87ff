// SPDX-License-Identifier: GPL-2.0

//! `ferrotrace klog` on a relay application made of ordinary files.

use std::fs;
use std::process::Command;

use crate::common::Channel;
use crate::common::exists;
use crate::common::fail;
use crate::common::ferrotrace;
use crate::common::stderr;
use crate::common::stdout;
use crate::common::succeed;

/// An application with messages of two CPUs.
fn app() -> Channel {
    let channel = Channel::new("no-overwrite", 8);
    for control in ["create", "enabled"] {
        fs::write(channel.dir.join(control), "0\n").unwrap();
    }
    fs::write(channel.dir.join("missed"), "7\n").unwrap();
    channel.cpu(0, 0).finish(b"first\n");
    channel.cpu(3, 0).finish(b"third\n");
    channel
}

fn klog(app: &Channel, args: &[&str]) -> Command {
    let mut command = ferrotrace();
    command.args(["klog", "-d", "0.3", "--dir"]).arg(&app.dir);
    command.args(args);
    command
}

fn control(app: &Channel, name: &str) -> String {
    fs::read_to_string(app.dir.join(name)).unwrap()
}

#[test]
fn messages_go_to_standard_output_and_the_summary_does_not() {
    let app = app();
    for size in ["subbuf_size", "n_subbufs"] {
        fs::write(app.dir.join(size), "1\n").unwrap();
    }
    let output = succeed(&mut klog(
        &app,
        &["-b", "4096", "-n", "4", "--overwrite", "-q"],
    ));
    // Ordinary files keep their data: the first message may appear again.
    let text = stdout(&output);
    assert!(
        text.contains("first\n") && text.contains("third\n"),
        "{text}"
    );
    assert_eq!(stderr(&output), "");
    // The command has removed the channel; its settings remain.
    for (name, value) in [
        ("create", "0"),
        ("enabled", "0"),
        ("subbuf_size", "4096"),
        ("n_subbufs", "4"),
        ("mode", "overwrite"),
    ] {
        assert_eq!(control(&app, name), value, "{name}");
    }
}

#[test]
fn the_summary_counts() {
    let app = app();
    let out = app.dir.join("log");
    let output = succeed(&mut klog(&app, &["-o", out.to_str().unwrap()]));
    assert_eq!(stdout(&output), "");
    let summary = stderr(&output);
    assert!(summary.contains("cpu 3: "), "{summary}");
    assert!(summary.contains("5 messages dropped"), "{summary}");
    assert!(summary.contains("0 messages missed"), "{summary}");
    assert!(fs::read_to_string(out).unwrap().contains("first\n"));
}

#[test]
fn files_are_not_written_over_silently() {
    let app = app();
    let prefix = app.dir.join("log");
    let name = prefix.to_str().unwrap();
    for (file, more) in [("log", None), ("log3", Some("--per-cpu"))] {
        let path = app.dir.join(file);
        fs::write(&path, "older").unwrap();
        let args: Vec<_> = ["-o", name].into_iter().chain(more).collect();
        let message = fail(&mut klog(&app, &args));
        assert!(
            message.contains(&format!("{file}: exists")) && message.contains("--force"),
            "{message}"
        );
        assert_eq!(fs::read(&path).unwrap(), b"older");
        assert_eq!(control(&app, "create"), "0", "a channel was left");
        let args: Vec<_> = args.into_iter().chain(["--force"]).collect();
        succeed(&mut klog(&app, &args));
        assert_ne!(fs::read(&path).unwrap(), b"older");
        fs::remove_file(&path).unwrap();
    }
}

#[test]
fn somebody_elses_channel_is_left_alone() {
    let app = app();
    fs::write(app.dir.join("create"), "1\n").unwrap();
    let message = fail(&mut klog(&app, &[]));
    assert!(
        message.contains("a channel already") && message.contains("--replace"),
        "{message}"
    );
    assert_eq!(control(&app, "create"), "1\n");
    succeed(&mut klog(&app, &["--replace"]));
    assert_eq!(control(&app, "create"), "0");
}

#[test]
fn a_directory_that_is_none_of_an_application() {
    let mut app = app();
    fs::remove_file(app.dir.join("create")).unwrap();
    let message = fail(&mut klog(&app, &[]));
    assert!(
        message.contains("not the directory of a relay application") && message.contains("create"),
        "{message}"
    );
    app.dir = "/nowhere/klog".into();
    let message = fail(&mut klog(&app, &[]));
    assert!(
        message.contains("/nowhere/klog: no such directory"),
        "{message}"
    );
    assert!(!exists(&app.dir));
}
