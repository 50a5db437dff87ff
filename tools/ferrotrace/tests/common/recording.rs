// SPDX-License-Identifier: GPL-2.0

//! Recordings written by hand.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::json;
use tempfile::TempDir;

use super::ferrotrace;

/// Time of the recording's start on two clocks.
pub const UNIX: u64 = 1_700_000_000_000_000_500;
pub const MONOTONIC: u64 = 400;

pub const TIMED: u16 = 1;
pub const DISCARDED: u16 = 2;
pub const PADDING: u16 = 4;

/// A recording.
pub struct Recording {
    pub dir: PathBuf,
    root: TempDir,
}

impl Recording {
    /// Makes a recording of `files` for CPUs 0, 1 and so on; `records` is "plain" or "fast".
    pub fn new(records: &str, format: &str, files: &[Vec<u8>]) -> Self {
        let root = TempDir::new().unwrap();
        let dir = root.path().join("rec");
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("format"), format).unwrap();
        let mut cpus = Vec::new();
        for (cpu, bytes) in files.iter().enumerate() {
            let file = format!("cpu{cpu}");
            fs::write(dir.join(&file), bytes).unwrap();
            cpus.push(json!({
                "cpu": cpu, "file": file, "bytes": bytes.len(), "subbufs": 0, "lost_subbufs": 0,
                "partial_bytes": 0, "lost_records": 0, "warnings": [],
            }));
        }
        let recording = Self { dir, root };
        recording.write_metadata(&json!({
            "version": 2, "complete": true, "channel": "/sys/kernel/debug/x", "name": "cpu",
            "records": records, "method": "mmap", "mode": "no-overwrite", "header": 0,
            "subbuf_size": 1 << 20, "n_subbufs": 4, "start_unix_ns": UNIX,
            "start_monotonic_ns": MONOTONIC, "host": "host7", "boot_id": "b007", "duration_ns": 1, "stop": "signal", "dropped": null,
            "cpus": cpus,
        }));
        recording
    }

    pub fn metadata(&self) -> serde_json::Value {
        serde_json::from_slice(&fs::read(self.dir.join("metadata.json")).unwrap()).unwrap()
    }

    pub fn write_metadata(&self, metadata: &serde_json::Value) {
        fs::write(self.dir.join("metadata.json"), metadata.to_string()).unwrap();
    }

    /// Returns a path outside the recording.
    pub fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    pub fn merge(&self, args: &[&str]) -> Command {
        let mut command = ferrotrace();
        command.args(["relay", "merge"]).arg(&self.dir).args(args);
        command
    }
}

/// Descriptions of [`switch`] and [`call`].
pub const TIMELINE: &str = "\
name: sched_switch
ID: 1
format:
\tfield:s32 prev_pid;\toffset:0;\tsize:4;\tsigned:1;
\tfield:s32 next_pid;\toffset:4;\tsize:4;\tsigned:1;
\tfield:char next_comm[16];\toffset:8;\tsize:16;\tsigned:0;
name: probe
ID: 2
format:
\tfield:s32 pid;\toffset:0;\tsize:4;\tsigned:1;
\tfield:u64 duration;\toffset:8;\tsize:8;\tsigned:0;
";

/// Returns a record of a switch from thread `prev` to `next`.
pub fn switch(time: u64, prev: i32, next: i32, comm: &str) -> Vec<u8> {
    let mut data = [prev.to_ne_bytes(), next.to_ne_bytes()].concat();
    data.extend(comm.as_bytes());
    data.resize(24, 0);
    fast(1, 0, Some(time), &data)
}

/// Returns a record of a finished call with its duration.
pub fn call(time: u64, pid: i32, duration: u64) -> Vec<u8> {
    let mut data = pid.to_ne_bytes().to_vec();
    data.extend([0; 4]);
    data.extend(duration.to_ne_bytes());
    fast(2, 0, Some(time), &data)
}

/// Returns a record of a fast channel.
pub fn fast(ty: u16, flags: u16, time: Option<u64>, data: &[u8]) -> Vec<u8> {
    let flags = flags | if time.is_some() { TIMED } else { 0 };
    let mut bytes = u32::try_from(data.len()).unwrap().to_ne_bytes().to_vec();
    bytes.extend(ty.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend(time.iter().flat_map(|time| time.to_ne_bytes()));
    bytes.extend(data);
    bytes.resize(bytes.len().next_multiple_of(8), 0xee);
    bytes
}
