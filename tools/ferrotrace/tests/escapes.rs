// SPDX-License-Identifier: GPL-2.0

//! Names and texts that other users choose are no commands for a terminal.

use std::ffi::OsStr;
use std::fs;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;
use std::thread;

use nix::pty::Winsize;
use nix::pty::openpty;

use crate::common::Channel;
use crate::common::coverage::dump;
use crate::common::ferrotrace;
use crate::common::recording::Recording;
use crate::common::recording::TIMELINE;
use crate::common::recording::fast;
use crate::common::recording::switch;
use crate::common::succeed;

/// A name that clears the screen, in both forms, moves the cursor, and shows what follows backwards.
const NAME: &str = "\x1b[2J\u{9b}H\r\u{202e}\u{7f}x";

/// Runs a command on a terminal. Returns what it writes to it.
fn on_terminal(command: &mut Command) -> String {
    let size = Winsize {
        ws_row: 24,
        ws_col: 200,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    let terminal = openpty(&size, None).unwrap();
    let (mut screen, end) = (File::from(terminal.master), File::from(terminal.slave));
    let read = thread::spawn(move || {
        let mut bytes = Vec::new();
        // At the end the system says EIO.
        let _ = screen.read_to_end(&mut bytes);
        String::from_utf8(bytes).unwrap()
    });
    command.stdout(end.try_clone().unwrap());
    command.stderr(end.try_clone().unwrap());
    command.status().unwrap();
    // The command has copies, too.
    command.stdout(std::process::Stdio::null());
    command.stderr(std::process::Stdio::null());
    drop(end);
    read.join().unwrap()
}

/// Checks that a command shows the name, and nothing that a terminal would obey.
fn is_harmless(command: &mut Command) {
    let text = on_terminal(command);
    // The terminal ends lines by a carriage return as well.
    let mut text = text.replace("\r\n", "\n");
    // The command's own colours.
    for code in ["0", "1", "33", "91", "93", "94", "96"] {
        text = text.replace(&format!("\x1b[{code}m"), "");
    }
    let is_bad = |c: char| c.is_control() && !"\n\t".contains(c) || c == '\u{202e}';
    assert!(!text.contains(is_bad), "{command:?}: {text:?}");
    assert!(
        text.contains("[2J") && text.contains('x'),
        "{command:?}: {text:?}"
    );
}

fn with(args: &[&str]) -> Command {
    let mut command = ferrotrace();
    command.args(args);
    command
}

#[test]
fn recordings() {
    let ms = 1_000_000;
    let cpu0 = [
        switch(ms, 0, 41, NAME),
        switch(7 * ms, 41, 0, "swapper"),
        fast(3, 0, Some(8 * ms), b""),
    ];
    let formats = format!("{TIMELINE}name: {NAME}tick\nID: 3\n");
    let recording = Recording::new("fast", &formats, &[cpu0.concat()]);
    let mut metadata = recording.metadata();
    metadata["host"] = NAME.into();
    metadata["channel"] = NAME.into();
    metadata["cpus"][0]["warnings"] = [NAME].as_slice().into();
    recording.write_metadata(&metadata);
    for args in [
        &["relay", "merge"][..],
        &["relay", "merge", "--json"],
        &["export", "--format", "chrome"],
        &["report"],
        &["report", "--html"],
    ] {
        is_harmless(with(args).arg(&recording.dir));
    }
    // Errors with names of the recording.
    metadata["cpus"][0]["file"] = NAME.into();
    recording.write_metadata(&metadata);
    is_harmless(with(&["relay", "merge"]).arg(&recording.dir));
    recording.write_metadata(&serde_json::json!({ "version": NAME }));
    is_harmless(with(&["relay", "merge"]).arg(&recording.dir));
}

/// Subjects, names of files, texts and names of functions are those of a repository.
#[test]
fn patches() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let git = |args: &[&str]| {
        let mut command = Command::new("git");
        command.current_dir(dir.path()).args(args);
        for role in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{role}_NAME"), "test");
            command.env(format!("GIT_{role}_EMAIL"), "test@test");
        }
        succeed(&mut command).stdout
    };
    git(&["init", "-q"]);
    git(&["commit", "-q", "--allow-empty", "-m", "base"]);
    let file = format!("{NAME}.c");
    fs::write(at(&file), format!("int f; // {NAME}\n")).unwrap();
    fs::write(at(&format!("{NAME}y.c")), "int f;\n").unwrap();
    git(&["add", "-A"]);
    git(&["commit", "-q", "-m", NAME]);
    let info = at("info");
    let name = file.replace('\r', "");
    fs::write(
        &info,
        format!("SF:/b/{name}\nFN:1,{NAME}\nDA:1,0\nend_of_record\n"),
    )
    .unwrap();
    fs::write(at("diff"), git(&["diff", "HEAD^"])).unwrap();
    fs::write(at("bad"), format!("SF:/b/{name}\nDA:1,{NAME}\n")).unwrap();
    let patch = |args: &[&str], tracefile: &Path| {
        let mut command = with(&["cov", "patch", "--tracefile"]);
        command.arg(tracefile).args(args).current_dir(dir.path());
        command
    };
    for format in [
        &[][..],
        &["--markdown"],
        &["--json"],
        &["--fail-uncovered-new-functions"],
    ] {
        is_harmless(&mut patch(&[&["HEAD^.."], format].concat(), &info));
        let mut command = patch(&[&["-"], format].concat(), &info);
        is_harmless(command.stdin(File::open(at("diff")).unwrap()));
    }
    is_harmless(&mut patch(&["HEAD^.."], &at("bad")));
    // Two files of the coverage.
    let two = ["/b", "/c"].map(|dir| format!("SF:{dir}/{name}\nDA:1,0\nend_of_record\n"));
    fs::write(&info, two.concat()).unwrap();
    is_harmless(&mut patch(&["HEAD^.."], &info));
}

/// A shell puts names of files on the command line.
#[test]
fn words_of_the_command_line() {
    for args in [
        &[NAME][..],
        &["probe", "watch", "--count", NAME, "x"],
        &["relay", "record", "-o", "/x", "-d", NAME, "/y"],
        &["relay", "merge", &format!("/nowhere/{NAME}")],
        &["export", "--format", NAME, "/x"],
        &["report", "/x", NAME],
        &["recover", "--image", NAME, "-o", "/nowhere/x"],
        &["cov", "report", NAME],
        &["cov", "patch", NAME],
        &["cov", "patch", "--tracefile", NAME, "-"],
        &["dprobes", "check", NAME],
        &["hooks", NAME],
        &["relay", "stat", NAME],
        &["trace", "functions", NAME],
    ] {
        is_harmless(&mut with(args));
    }
    let channel = Channel::new("no-overwrite", 0);
    channel.cpu(0, 0).finish(b"data");
    is_harmless(channel.record(&["-q", "--no-partial"]).args(["--", NAME]));
}

#[test]
fn files() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    // A program with a name of this kind, and a text in it.
    fs::write(at("a.dp"), format!("name = {NAME}\nopcode = {NAME}\n")).unwrap();
    is_harmless(with(&["dprobes", "check"]).arg(at("a.dp")));
    fs::write(at(&format!("{NAME}.dp")), "x").unwrap();
    is_harmless(with(&["dprobes", "check"]).arg(at(&format!("{NAME}.dp"))));
    let object = Path::new("/nowhere").join(OsStr::from_bytes(NAME.as_bytes()));
    fs::write(at("dump"), dump(&object.with_extension("gcda"), &[1, 2, 3])).unwrap();
    is_harmless(with(&["cov", "report"]).arg(at("dump")));
    // Names of channels.
    let channel = Channel::new("no-overwrite", 0);
    channel.cpu(0, 0).finish(b"data");
    fs::create_dir(at(NAME)).unwrap();
    for entry in fs::read_dir(&channel.dir).unwrap().flatten() {
        fs::copy(entry.path(), at(NAME).join(entry.file_name())).unwrap();
    }
    is_harmless(with(&["relay", "list", "--dir"]).arg(dir.path()));
    is_harmless(with(&["relay", "list", "--json", "--dir"]).arg(dir.path()));
    let name = at(NAME).join("cpu");
    is_harmless(with(&["relay", "stat"]).arg(&name));
    is_harmless(
        with(&["relay", "record", "-q", "-d", "10ms", "-o"])
            .arg(at(&format!("{NAME}out")))
            .arg(&name),
    );
    is_harmless(
        with(&["relay", "record", "-q", "--json", "-d", "10ms", "-o"])
            .arg(at(&format!("{NAME}2")))
            .arg(&name),
    );
}
