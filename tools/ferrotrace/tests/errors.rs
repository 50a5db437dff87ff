// SPDX-License-Identifier: GPL-2.0

//! Each mistake has its own message and writes no files.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use crate::common::Channel;
use crate::common::exists;
use crate::common::fail;
use crate::common::ferrotrace;
use crate::common::stderr;
use crate::common::succeed;
use crate::common::with_small_files;

const QUICK: [&str; 3] = ["--duration", "0.1", "--no-partial"];

fn has(message: &str, parts: &[&str]) {
    for part in parts {
        assert!(message.contains(part), "{part:?} is not in: {message}");
    }
}

fn record(channel: &str, out: &str) -> Command {
    let mut command = ferrotrace();
    command.args(["relay", "record", channel, "-o", out]);
    command
}

/// Files of the wrong kind, and files without an end.
#[test]
fn files_of_other_kinds() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let file = dir.path().join("file");
    fs::write(&file, [0xff; 64]).unwrap();
    let (out, file) = (out.to_str().unwrap(), file.to_str().unwrap());
    for (args, said) in [
        (
            &["recover", "--image", "/dev/zero", "-o", out][..],
            "/dev/zero: cannot be read: not a file",
        ),
        (
            &["dprobes", "check", "/dev/zero"],
            "/dev/zero: cannot read: longer than",
        ),
        (
            &["export", file],
            "file: not a recording, which is a directory",
        ),
        (&["report", "/nowhere"], "/nowhere: no such recording"),
    ] {
        has(&fail(ferrotrace().args(args)), &[said]);
    }
    assert!(!fs::exists(out).unwrap());
    // A message names its cause only once.
    let message = fail(ferrotrace().args(["cov", "report", file]));
    assert_eq!(message.matches("object 1").count(), 1, "{message}");
}

#[test]
fn a_channel_that_is_not_there() {
    let channel = Channel::new("no-overwrite", 0);
    drop(channel.cpu(0, 0));
    let out = channel.out.to_str().unwrap();
    let dir = channel.dir.to_str().unwrap();

    has(
        &fail(&mut record("/nowhere/relay/cpu", out)),
        &["/nowhere/relay: no such directory", "debugfs"],
    );
    has(
        &fail(&mut record(&format!("{dir}/mode/cpu"), out)),
        &["not a directory"],
    );
    has(
        &fail(&mut record(&format!("{dir}/trace"), out)),
        &["no relay file", "trace0", &format!("{dir}/cpu")],
    );
    has(
        &fail(&mut record(dir, out)),
        &["is a directory", &format!("{dir}/cpu")],
    );
    has(&fail(&mut record("/", out)), &["DIR/NAME"]);
    assert!(!exists(&channel.out), "an output directory was left behind");
    // Neither a directory nor another file with a number is suggested as a relay file.
    fs::create_dir(channel.dir.join("apache2")).unwrap();
    let message = fail(&mut record(&format!("{dir}/trace"), out));
    assert!(!message.contains("apache"), "{message}");

    let mut stat = ferrotrace();
    stat.args(["relay", "stat", "/nowhere/relay/cpu"]);
    has(&fail(&mut stat), &["no such directory"]);
}

#[test]
fn an_output_that_is_taken() {
    let channel = Channel::new("no-overwrite", 0);
    channel.cpu(0, 0).finish(b"data");
    fs::create_dir(&channel.out).unwrap();
    fs::write(channel.out.join("cpu0"), "older and longer").unwrap();
    has(
        &fail(&mut channel.record(&QUICK)),
        &["not empty", "--force"],
    );
    assert_eq!(channel.recorded(0), b"older and longer");

    let mut args = QUICK.to_vec();
    args.push("--force");
    succeed(&mut channel.record(&args));
    assert_eq!(channel.recorded(0), b"data");

    fs::remove_dir_all(&channel.out).unwrap();
    fs::write(&channel.out, "a file").unwrap();
    has(&fail(&mut channel.record(&QUICK)), &["not a directory"]);
}

/// A file size limit stands for a full disk. The data of another CPU is kept.
#[test]
fn a_full_disk() {
    let channel = Channel::new("no-overwrite", 0);
    channel.cpu(0, 0).finish(b"kept");
    let mut cpu = channel.cpu(1, 0);
    for _ in 0..3 {
        cpu.finish(&[1; 4000]);
    }
    has(
        &fail(&mut with_small_files(&channel.record(&QUICK))),
        &["cannot write", "cpu1"],
    );
    assert_eq!(channel.recorded(0), b"kept");
    assert_eq!(channel.recorded(1), [1; 4000], "no part of a piece is kept");
    assert_eq!(channel.consumed(1), 1, "what was not saved is not consumed");
    let metadata = channel.metadata();
    assert_eq!(metadata["stop"], "error");
    assert_eq!(metadata["cpus"][0]["bytes"], 4);
    assert_eq!(metadata["cpus"][1]["bytes"], 4000);
}

/// In a directory that others can write to, the recorder does not write through their links.
#[test]
fn an_output_with_links() {
    let channel = Channel::new("no-overwrite", 0);
    channel.cpu(0, 0).finish(b"data");
    fs::create_dir(&channel.out).unwrap();
    let victim = channel.dir.join("victim");
    fs::write(&victim, "kept").unwrap();
    for name in ["cpu0", "format", "metadata.json", ".metadata.json.new"] {
        symlink(&victim, channel.out.join(name)).unwrap();
    }
    let mut args = QUICK.to_vec();
    args.push("--force");
    succeed(&mut channel.record(&args));
    assert_eq!(fs::read(&victim).unwrap(), b"kept");
    assert_eq!(channel.recorded(0), b"data");
    let link = channel.dir.join("link");
    symlink(&channel.out, &link).unwrap();
    let channel_name = channel.dir.join("cpu");
    let mut to_link = record(channel_name.to_str().unwrap(), link.to_str().unwrap());
    to_link.args(QUICK).arg("--force");
    has(&fail(&mut to_link), &["a symbolic link"]);
}

/// The message names the file, for both -o and a redirected stdout.
#[test]
fn a_full_disk_of_a_text() {
    let dir = tempfile::tempdir().unwrap();
    let list = |args: &[&str]| {
        let mut command = ferrotrace();
        command
            .args(["relay", "list", "--dir"])
            .arg(dir.path())
            .args(args);
        command
    };
    let full = "ferrotrace: /dev/full: cannot write: No space left on device (os error 28)\n";
    assert_eq!(fail(&mut list(&["-o", "/dev/full"])), full);
    let file = fs::File::create("/dev/full").unwrap();
    let output = list(&["--json"]).stdout(file).output().unwrap();
    assert_eq!(stderr(&output), full);
    assert_eq!(output.status.code(), Some(1));
}

/// A kernel file without mmap, such as a relay file in mainline's debugfs.
#[test]
fn files_without_mmap() {
    let channel = Channel::new("no-overwrite", 0);
    drop(channel.cpu(0, 0));
    let path = channel.dir.join("cpu0");
    fs::remove_file(&path).unwrap();
    symlink("/proc/self/environ", &path).unwrap();
    let message = fail(&mut channel.record(&QUICK));
    has(&message, &["cpu0", "refuses to map", "--read"]);
    assert!(!exists(&channel.out), "an output directory was left behind");
}

#[test]
fn files_that_are_too_short_for_their_description() {
    let channel = Channel::new("no-overwrite", 0);
    drop(channel.cpu(0, 0));
    fs::write(channel.dir.join("n_subbufs"), "4096\n").unwrap();
    has(
        &fail(&mut channel.record(&QUICK)),
        &["cannot be mapped as 4096 sub-buffers of 4096 bytes"],
    );
}

#[test]
fn control_files_that_lie_or_are_missing() {
    let with = |file: &str, content: Option<&str>, args: &[&str]| {
        let channel = Channel::new("no-overwrite", 0);
        channel.cpu(0, 0).finish(b"data");
        let path = channel.dir.join(file);
        match content {
            Some(content) => fs::write(path, content).unwrap(),
            None => fs::remove_file(path).unwrap(),
        }
        let mut all = QUICK.to_vec();
        all.extend(args);
        channel.record(&all).output().map(|output| {
            let message = String::from_utf8(output.stderr).unwrap();
            (output.status.code(), message)
        })
    };
    let failing = |file, content, args: &[&str], parts: &[&str]| {
        let (status, message) = with(file, content, args).unwrap();
        assert_eq!(status, Some(1), "{message}");
        has(&message, parts);
    };
    failing("subbuf_size", None, &[], &["subbuf_size", "--subbuf-size"]);
    failing(
        "subbuf_size",
        Some("many\n"),
        &[],
        &["\"many\" is not a number"],
    );
    failing("subbuf_size", Some("0\n"), &[], &["no such buffer"]);
    failing(
        "n_subbufs",
        Some("18446744073709551615\n"),
        &[],
        &["no such buffer"],
    );
    failing(
        "mode",
        Some("sideways\n"),
        &[],
        &["\"sideways\"", "overwrite"],
    );
    failing("cpu0.produced", None, &[], &["cpu0.produced", "--read"]);
    failing("cpu0.consumed", None, &[], &["cpu0.consumed", "--read"]);
    failing("cpu0.padding", None, &[], &["cpu0.padding", "--header"]);
    failing(
        "cpu0.produced",
        Some("\x01"),
        &[],
        &["cpu0.produced", "size_t"],
    );
    failing(
        "cpu0.padding",
        Some("ffffffff________________________"),
        &[],
        &["CPU 0", "sub-buffer 0", "padding"],
    );
    failing(
        "mode",
        Some("overwrite\n"),
        &["--read", "--header", "4"],
        &["overwrite", "--read"],
    );
    failing(
        "subbuf_size",
        Some("8\n"),
        &["--header", "8"],
        &["header of 8"],
    );
    // The command line can replace a missing file.
    let (status, message) = with("subbuf_size", None, &["--subbuf-size", "4096"]).unwrap();
    assert_eq!(status, Some(0), "{message}");
}

#[test]
fn counters_that_cannot_be() {
    let channel = Channel::new("no-overwrite", 0);
    drop(channel.cpu(0, 0));
    fs::write(channel.dir.join("cpu0.produced"), 99usize.to_ne_bytes()).unwrap();
    has(
        &fail(&mut channel.record(&QUICK)),
        &["99 produced, 0 consumed"],
    );
}

#[test]
fn a_file_that_may_not_be_read() {
    // root may read everything except a directory in place of a file.
    let channel = Channel::new("no-overwrite", 0);
    drop(channel.cpu(0, 0));
    fs::remove_file(channel.dir.join("cpu0.produced")).unwrap();
    fs::create_dir(channel.dir.join("cpu0.produced")).unwrap();
    has(
        &fail(&mut channel.record(&QUICK)),
        &["cpu0.produced: cannot"],
    );
}

#[test]
fn permission_denied() {
    let channel = Channel::new("no-overwrite", 0);
    drop(channel.cpu(0, 0));
    // Root becomes the user nobody; other users remove their own permissions.
    let root = nix::unistd::geteuid().is_root();
    use std::os::unix::fs::PermissionsExt;
    let closed = fs::Permissions::from_mode(if root { 0o600 } else { 0o000 });
    fs::set_permissions(channel.dir.join("cpu0"), closed).unwrap();
    let open = fs::Permissions::from_mode(0o755);
    let above = channel.dir.parent().unwrap();
    fs::set_permissions(above, open.clone()).unwrap();
    let out = tempfile::tempdir().unwrap();
    fs::set_permissions(out.path(), fs::Permissions::from_mode(0o777)).unwrap();
    // The user nobody may have no access to the binary's directory.
    let binary = above.join("ferrotrace");
    // Do not use fs::copy(): a child of a concurrent test would inherit the file, open for writing,
    // and a file open for writing cannot be executed.
    let mut copy = Command::new("cp");
    succeed(copy.arg(env!("CARGO_BIN_EXE_ferrotrace")).arg(&binary));
    fs::set_permissions(&binary, open).unwrap();

    let mut command = Command::new(&binary);
    command.args(["relay", "record"]).arg(channel.name());
    command.arg("-o").arg(out.path().join("rec")).args(QUICK);
    if root {
        use std::os::unix::process::CommandExt;
        command.uid(65534).gid(65534);
    }
    has(&fail(&mut command), &["permission denied", "cpu0"]);
}

#[test]
fn wrong_arguments() {
    for args in [
        ["--header", "5"],
        ["--duration", "-1"],
        ["--duration", "soon"],
        ["--duration", "1e300"],
    ] {
        let channel = Channel::new("no-overwrite", 0);
        drop(channel.cpu(0, 0));
        let output = channel.record(&args).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(!exists(&channel.out));
    }
    // A zero interval would keep a processor busy.
    for args in [["--interval", "0"], ["-i", "1e-9"], ["--count", "0"]] {
        let output = ferrotrace()
            .args(["relay", "stat", "/nowhere/cpu"])
            .args(args)
            .output();
        let output = output.unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(
            message.starts_with("ferrotrace: invalid value"),
            "{message}"
        );
    }
    let output = ferrotrace().arg("--version").output().unwrap();
    assert!(output.status.success());
    assert!(output.stdout.starts_with(b"ferrotrace "));
}

#[test]
fn functions_that_cannot_be_traced() {
    let trace = |args: &[&str]| {
        let mut command = ferrotrace();
        command.args(["trace", "functions"]).args(args);
        command
    };
    has(
        &fail(&mut trace(&["vfs_*", "--dir", "/nowhere/functions"])),
        &["/nowhere", "is debugfs mounted?"],
    );
    has(
        &fail(&mut trace(&["vfs_*", "--dir", "/proc/functions"])),
        &["modprobe ferrotrace_ftrace_functions"],
    );
    for (args, part) in [
        (&["vfs_["][..], "[ without ]"),
        (&["vfs_read", "-i", "0"], "0.01 seconds"),
        (&["vfs_read", "-t", "0"], "0 is not in 1.."),
        (&["vfs_read", "-n", "4"], "unexpected argument '-n'"),
        (&[], "<PATTERN>"),
    ] {
        let output = trace(args).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        has(&String::from_utf8_lossy(&output.stderr), &[part]);
    }
}
