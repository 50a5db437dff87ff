// SPDX-License-Identifier: GPL-2.0

//! Tests of probed files while other files take their names, or change them. The kernel's log says
//! if that has done harm.

use std::fs::File;
use std::io::BufRead;
use std::io::BufReader;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;

use ferro_dprobes_core::*;

use crate::Case;
use crate::control::state;
use crate::user;

pub const CASES: &[Case] = &[
    ("files.not_ascii", not_ascii),
    ("files.replaced", replaced),
    ("files.is_current", is_current),
    ("files.copied_up", copied_up),
    ("files.written_to", written_to),
    ("files.cut", cut),
];

const COUNTS: [Insn; 2] = [Insn::with(Op::IncLv, 0), Insn::new(Op::Exit)];

/// A copy of this program, which is removed on drop.
struct Copied(PathBuf);

impl Copied {
    fn new(name: &str) -> Self {
        let path = PathBuf::from(format!("/tmp/dprobes_test.{}.{name}", std::process::id()));
        std::fs::copy(user::path(), &path).unwrap();
        Self(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }

    /// Calls the probed function `n` times in a process of this file.
    fn calls(&self, n: u64) {
        let status = Command::new(&self.0).arg(format!("child={n}")).status();
        assert!(status.unwrap().success());
    }
}

impl Drop for Copied {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Body of a child process: calls the probed function 10 times for each line.
pub fn follow() {
    for line in std::io::stdin().lines() {
        line.unwrap();
        user::child(10);
        println!("done");
    }
}

/// A process of a file that calls the probed function on request.
struct Following(Child, BufReader<std::process::ChildStdout>);

impl Following {
    fn new(file: &Copied) -> Self {
        let mut child = Command::new(&file.0)
            .arg("follow")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Self(child, out)
    }

    fn calls(&mut self) {
        use std::io::Write;
        writeln!(self.0.stdin.as_mut().unwrap()).unwrap();
        let mut line = String::new();
        self.1.read_line(&mut line).unwrap();
        assert_eq!(line, "done\n");
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// Probes a file with letters in its name that are not ASCII.
fn not_ascii() {
    let file = Copied::new("größe");
    user::program(file.path(), &COUNTS).load();
    file.calls(5);
    assert_eq!(state().number("hits"), 5);
    crate::control::remove_all();
}

/// Replaces the file: the new file of this name is not probed. A process that runs the old file
/// still hits the point, also when the file has no name left.
fn replaced() {
    let file = Copied::new("replaced");
    user::program(file.path(), &COUNTS).load();
    let mut old = Following::new(&file);
    old.calls();
    assert_eq!(state().number("hits"), 10);
    let other = Copied::new("other");
    std::fs::rename(&other.0, &file.0).unwrap();
    file.calls(5);
    assert_eq!(state().number("hits"), 10);
    old.calls();
    assert_eq!(state().number("hits"), 20);
    let mut second = user::program(file.path(), &COUNTS);
    second.set.flags = REPLACE;
    second.load();
    file.calls(5);
    assert_eq!((state().number("hits"), state().locals[0][0]), (5, 5));
    old.calls();
    assert_eq!(state().number("hits"), 5);
    crate::control::remove_all();
    old.calls();
}

/// A point says that its file was moved, replaced or removed, from that moment on.
fn is_current() {
    let changes: [fn(&Copied, &Copied); 3] = [
        |file, other| std::fs::rename(&other.0, &file.0).unwrap(),
        |file, other| std::fs::rename(&file.0, &other.0).unwrap(),
        |file, _| std::fs::remove_file(&file.0).unwrap(),
    ];
    for change in changes {
        let (file, other) = (Copied::new("current"), Copied::new("other"));
        user::program(file.path(), &COUNTS).load();
        let mut running = Following::new(&file);
        assert_eq!(state().points[0]["state"], "active");
        change(&file, &other);
        assert_eq!(state().points[0]["state"], "replaced");
        // The process that runs the old file still hits the point.
        running.calls();
        assert_eq!(state().number("hits"), 10);
        crate::control::remove_all();
    }
}

/// An overlay with a copy of this program in its lower directory.
struct Overlay(PathBuf);

impl Overlay {
    fn new() -> Self {
        let dir = PathBuf::from(format!("/tmp/dprobes_overlay.{}", std::process::id()));
        let all = Self(dir);
        std::fs::create_dir_all(&all.0).unwrap();
        let mount = |args: &[&str]| {
            let status = Command::new("mount").args(args).status().unwrap();
            assert!(status.success(), "mount {args:?}");
        };
        mount(&["-t", "tmpfs", "tmpfs", all.0.to_str().unwrap()]);
        for name in ["lower", "upper", "work", "merged"] {
            std::fs::create_dir(all.0.join(name)).unwrap();
        }
        std::fs::copy(user::path(), all.0.join("lower/file")).unwrap();
        let at = |name| all.0.join(name).to_str().unwrap().to_string();
        let (lower, upper, work) = (at("lower"), at("upper"), at("work"));
        let options = format!("lowerdir={lower},upperdir={upper},workdir={work}");
        mount(&["-t", "overlay", "overlay", "-o", &options, &at("merged")]);
        all
    }
}

impl Drop for Overlay {
    fn drop(&mut self) {
        for dir in [self.0.join("merged"), self.0.clone()] {
            let _ = Command::new("umount").arg(dir).status();
        }
        let _ = std::fs::remove_dir(&self.0);
    }
}

/// Checks that a point reports that the file of an overlay was copied up: processes that start
/// later run the copy.
fn copied_up() {
    let overlay = Overlay::new();
    // Removed with the overlay.
    let file = std::mem::ManuallyDrop::new(Copied(overlay.0.join("merged/file")));
    user::program(file.path(), &COUNTS).load();
    file.calls(5);
    assert_eq!(state().points[0]["state"], "active");
    File::options().append(true).open(&file.0).unwrap();
    assert_eq!(state().points[0]["state"], "replaced");
    file.calls(5);
    assert_eq!(state().number("hits"), 5);
    let mut again = user::program(file.path(), &COUNTS);
    again.set.flags = REPLACE;
    again.load();
    file.calls(5);
    assert_eq!(state().number("hits"), 5);
    assert_eq!(state().points[0]["state"], "active");
    crate::control::remove_all();
}

/// The code of a probed file is changed while no process runs it.
fn written_to() {
    let file = Copied::new("written");
    let program = user::program(file.path(), &COUNTS);
    program.load();
    file.calls(5);
    let contents = File::options().write(true).open(&file.0).unwrap();
    // The original code, and then breakpoints, which only uprobes uses.
    let code = std::fs::read(&file.0).unwrap();
    let offset = program.point.offset;
    let at = offset as usize;
    contents.write_all_at(&code[at..at + 16], offset).unwrap();
    drop(contents);
    file.calls(5);
    let contents = File::options().write(true).open(&file.0).unwrap();
    contents.write_all_at(&[0xcc; 16], offset).unwrap();
    drop(contents);
    // The process is killed, or continues.
    let _ = Command::new(&file.0).arg("child=5").status();
    assert!(state().number("hits") >= 5);
    crate::control::remove_all();
}

/// A probed file ends before its point now.
fn cut() {
    let file = Copied::new("cut");
    user::program(file.path(), &COUNTS).load();
    file.calls(5);
    let contents = File::options().write(true).open(&file.0).unwrap();
    contents.set_len(4096).unwrap();
    drop(contents);
    let _ = Command::new(&file.0).arg("child=5").status();
    assert_eq!(state().number("hits"), 5);
    crate::control::remove_all();
    let whole = user::program(file.path(), &COUNTS);
    assert_eq!(whole.refused().0, libc::ENXIO);
}
