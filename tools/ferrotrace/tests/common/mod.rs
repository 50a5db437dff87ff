// SPDX-License-Identifier: GPL-2.0

//! A relay directory made of ordinary files, and the command run on it.
//!
//!
//! Ordinary files can be mapped too, and poll always reports them as ready. But the reader consumes
//! nothing: reading leaves the data, and the `.consumed` file only keeps the last number written.
//! So the tests follow the recording's progress in its files and leave out the unfinished
//! sub-buffer.

use std::fs;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::path::PathBuf;
use std::process::Child;
use std::process::Command;
use std::process::Output;
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;
use std::time::Instant;

use tempfile::TempDir;

pub mod coverage;
pub mod fast;
pub mod readers;
pub mod recording;
pub mod ring;

pub const SUBBUF: usize = 4096;
pub const N: usize = 4;

pub const FORMAT: &str = "\
name: sample
ID: 0
format:
\tfield:u64 time;\toffset:0;\tsize:8;\tsigned:0;
\tfield:u32 cpu;\toffset:8;\tsize:4;\tsigned:0;
\tfield:s32 pid;\toffset:12;\tsize:4;\tsigned:1;
\tfield:char comm[16];\toffset:16;\tsize:16;\tsigned:0;
\tfield:u64 addr;\toffset:32;\tsize:8;\tsigned:0;
";

pub const RECORD: usize = 40;

/// Returns a record in the layout of [`FORMAT`].
pub fn record(time: u64, cpu: u32, pid: i32, comm: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(time.to_ne_bytes());
    bytes.extend(cpu.to_ne_bytes());
    bytes.extend(pid.to_ne_bytes());
    let mut name = [0; 16];
    name[..comm.len()].copy_from_slice(comm.as_bytes());
    bytes.extend(name);
    bytes.extend(0xffff_8000_0000_1000u64.to_ne_bytes());
    bytes
}

/// A channel.
pub struct Channel {
    pub dir: PathBuf,
    pub out: PathBuf,
    header: usize,
    _root: TempDir,
}

/// One CPU of a channel.
pub struct Cpu {
    data: File,
    produced: File,
    padding: Option<File>,
    header: usize,
    pub number: usize,
}

impl Channel {
    pub fn new(mode: &str, header: usize) -> Self {
        let root = TempDir::new().unwrap();
        let dir = root.path().join("relay");
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("subbuf_size"), format!("{SUBBUF}\n")).unwrap();
        fs::write(dir.join("n_subbufs"), format!("{N}\n")).unwrap();
        fs::write(dir.join("mode"), format!("{mode}\n")).unwrap();
        fs::write(dir.join("dropped"), "5\n").unwrap();
        fs::write(dir.join("format"), FORMAT).unwrap();
        Self {
            out: root.path().join("out"),
            dir,
            header,
            _root: root,
        }
    }

    /// Adds a CPU with produced and consumed counts of `count`.
    pub fn cpu(&self, cpu: u32, count: usize) -> Cpu {
        let path = |suffix: &str| self.dir.join(format!("cpu{cpu}{suffix}"));
        let counter = |suffix: &str| {
            fs::write(path(suffix), count.to_ne_bytes()).unwrap();
            File::options().write(true).open(path(suffix)).unwrap()
        };
        let produced = counter(".produced");
        counter(".consumed");
        let padding = (self.header == 0).then(|| {
            fs::write(path(".padding"), [0; N * 8]).unwrap();
            File::options().write(true).open(path(".padding")).unwrap()
        });
        // The relay file is created last, since the recorder looks for it.
        let data = File::create(path(".new")).unwrap();
        data.set_len((SUBBUF * N).try_into().unwrap()).unwrap();
        fs::rename(path(".new"), path("")).unwrap();
        Cpu {
            data,
            produced,
            padding,
            header: self.header,
            number: count,
        }
    }

    pub fn name(&self) -> PathBuf {
        self.dir.join("cpu")
    }

    pub fn consumed(&self, cpu: u32) -> usize {
        let bytes = fs::read(self.dir.join(format!("cpu{cpu}.consumed"))).unwrap();
        usize::from_ne_bytes(bytes.try_into().unwrap())
    }

    pub fn recorded(&self, cpu: u32) -> Vec<u8> {
        fs::read(self.out.join(format!("cpu{cpu}"))).unwrap()
    }

    /// Waits until the file of `cpu` has `len` bytes.
    pub fn wait_for(&self, cpu: u32, len: usize) {
        let path = self.out.join(format!("cpu{cpu}"));
        let len: u64 = len.try_into().unwrap();
        wait(|| fs::metadata(&path).is_ok_and(|file| file.len() >= len));
    }

    pub fn record(&self, args: &[&str]) -> Command {
        let mut command = ferrotrace();
        command.args(["relay", "record"]).arg(self.name());
        command.arg("-o").arg(&self.out).args(args);
        command
    }

    pub fn metadata(&self) -> serde_json::Value {
        serde_json::from_slice(&fs::read(self.out.join("metadata.json")).unwrap()).unwrap()
    }
}

impl Cpu {
    /// Returns the most data that one sub-buffer takes.
    pub fn room(&self) -> usize {
        SUBBUF - self.header
    }

    /// Fills a sub-buffer and ends it.
    pub fn finish(&mut self, bytes: &[u8]) {
        let slot = self.number % N;
        let start = slot * SUBBUF;
        let padding = self.room() - bytes.len();
        let at = |offset: usize| u64::try_from(offset).unwrap();
        let mut whole = vec![0xaa; SUBBUF];
        whole[self.header..self.header + bytes.len()].copy_from_slice(bytes);
        match self.header {
            4 => whole[..4].copy_from_slice(&u32::try_from(padding).unwrap().to_ne_bytes()),
            8 => whole[..8].copy_from_slice(&padding.to_ne_bytes()),
            _ => (),
        }
        self.data.write_all_at(&whole, at(start)).unwrap();
        if let Some(file) = &self.padding {
            file.write_all_at(&padding.to_ne_bytes(), at(slot * 8))
                .unwrap();
        }
        self.number += 1;
        self.produced
            .write_all_at(&self.number.to_ne_bytes(), 0)
            .unwrap();
    }
}

pub fn ferrotrace() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ferrotrace"));
    command.stdin(Stdio::null());
    // Many tests have old spellings, whose notes would be noise.
    command.env("FERROTRACE_NO_NOTES", "1");
    command
}

/// Time limit of any step on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(300);

pub fn wait(until: impl Fn() -> bool) {
    let start = Instant::now();
    while !until() {
        assert!(start.elapsed() < PATIENCE, "nothing happened");
        sleep(Duration::from_millis(5));
    }
}

pub fn start(command: &mut Command) -> Child {
    command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

pub fn interrupt(child: &Child) {
    let pid = nix::unistd::Pid::from_raw(child.id().try_into().unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Runs a command that must succeed, and returns its output.
pub fn succeed(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    output
}

/// Runs a command that must fail with status 1, and returns the message.
pub fn fail(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    let message = stderr(&output);
    assert!(message.starts_with("ferrotrace: "), "{message}");
    message
}

pub fn exists(path: &Path) -> bool {
    path.try_exists().unwrap()
}

/// Returns the command with a limit of 5 KiB for its files: a longer write fails with EFBIG,
/// without a signal.
pub fn with_small_files(command: &Command) -> Command {
    let script = "trap '' XFSZ; ulimit -f 5; exec \"$0\" \"$@\"";
    let mut limited = Command::new("bash");
    limited.args(["-c", script]).arg(command.get_program());
    limited.args(command.get_args());
    limited
}
