// SPDX-License-Identifier: GPL-2.0

//! A simulated fast channel, and records that a reader can check for damage.

use std::fs;
use std::fs::File;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;

use super::ferrotrace;
use super::ring::Shape;
use super::ring::Writer;
use ferrotrace::fast::record::Record;
use ferrotrace::fast::record::RecordReader;
use tempfile::TempDir;

pub const SMALL: Shape = Shape {
    subbuf_size: 256,
    n_subbufs: 4,
    overwrite: false,
};

pub const LARGE: Shape = Shape {
    subbuf_size: 4096,
    n_subbufs: 8,
    overwrite: false,
};

/// Returns a record whose length and contents follow from its number.
pub fn numbered(number: u64) -> Record {
    let len = usize::try_from(8 + number * 7 % 90).unwrap();
    Record {
        ty: u16::try_from(number % 1000).unwrap(),
        time: (number % 3 != 0).then_some(number * 10),
        data: number.to_ne_bytes().into_iter().cycle().take(len).collect(),
    }
}

pub fn number(record: &Record) -> u64 {
    u64::from_ne_bytes(record.data[..8].try_into().unwrap())
}

pub fn records_in(path: &Path) -> Vec<Record> {
    let mut reader = RecordReader::new(File::open(path).unwrap(), 1 << 20);
    let records = reader.by_ref().map(Result::unwrap).collect();
    assert_eq!(reader.truncated(), 0);
    records
}

/// Checks that the records are in ascending order and undamaged. Returns their number.
pub fn check_whole(records: &[Record]) -> usize {
    let mut last = None;
    for record in records {
        let number = number(record);
        assert_eq!(*record, numbered(number));
        assert!(last < Some(number), "{last:?} {number}");
        last = Some(number);
    }
    records.len()
}

/// A directory with a fast channel, for the command.
pub struct Channel {
    pub root: TempDir,
}

impl Channel {
    pub fn new() -> Self {
        let root = TempDir::new().unwrap();
        fs::create_dir(root.path().join("relay")).unwrap();
        Self { root }
    }

    pub fn file(&self, cpu: u32) -> PathBuf {
        self.root.path().join(format!("relay/cpu{cpu}"))
    }

    pub fn cpu(&self, cpu: u32, shape: Shape) -> Writer {
        Writer::create(&self.file(cpu), cpu, shape, 0)
    }

    pub fn out(&self) -> PathBuf {
        self.root.path().join("out")
    }

    pub fn command(&self, what: &str, args: &[&str]) -> Command {
        let mut command = ferrotrace();
        command
            .args(["relay", what])
            .arg(self.root.path().join("relay/cpu"));
        command.args(args);
        command
    }

    pub fn record(&self, args: &[&str]) -> Command {
        let mut command = self.command("record", args);
        command.arg("-o").arg(self.out());
        command
    }

    pub fn recorded(&self, cpu: u32) -> Vec<Record> {
        records_in(&self.out().join(format!("cpu{cpu}")))
    }

    pub fn metadata(&self) -> serde_json::Value {
        serde_json::from_slice(&fs::read(self.out().join("metadata.json")).unwrap()).unwrap()
    }
}

pub fn numbers(range: std::ops::Range<u64>) -> Vec<Record> {
    range.map(numbered).collect()
}

pub fn write(writer: &mut Writer, range: std::ops::Range<u64>) {
    for number in range {
        assert!(writer.write(numbered(number), 0), "{number}");
    }
}
