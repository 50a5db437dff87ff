// SPDX-License-Identifier: GPL-2.0

//! `ferrotrace recover` on copies of memory.

use std::cell::Cell;
use std::fs;
use std::path::Path;
use std::process::Output;

use ferro_fast_relay_core::persistent::CTL_MAGIC;
use ferro_fast_relay_core::persistent::Crc;
use ferro_fast_relay_core::persistent::Header;
use ferro_fast_relay_core::persistent::Layout;
use ferro_fast_relay_core::persistent::Memory;
use ferro_fast_relay_core::persistent::MemoryMut;
use ferro_fast_relay_core::persistent::NAME_BYTES;
use ferro_fast_relay_core::persistent::checksum;
use ferro_fast_relay_core::persistent::checksum::Reason;
use ferro_fast_relay_core::ring;
use ferro_fast_relay_core::ring::OPEN;
use ferro_fast_relay_core::ring::Ring;
use ferro_fast_relay_core::ring::TIMED;
use ferro_fast_relay_core::ring::Word;
use serde_json::Value;

use crate::common::ferrotrace;
use crate::common::stderr;
use crate::common::stdout;
use crate::common::succeed;

const FORMAT: &[u8] =
    b"name: tick\nID: 1\nformat:\n\tfield:u32 n;\toffset:0;\tsize:4;\tsigned:0;\n";
const OPENED: u64 = 5_000_000_000;

fn name(text: &str) -> [u8; NAME_BYTES] {
    let mut name = [0; NAME_BYTES];
    name[..text.len()].copy_from_slice(text.as_bytes());
    name
}

/// Memory of a channel with three CPUs; the last CPU was never online.
struct Image {
    words: Vec<Cell<u64>>,
    layout: Layout,
}

impl Memory for Image {
    fn load(&self, at: u64) -> u64 {
        self.words[usize::try_from(at / 8).unwrap()].get()
    }
}

impl MemoryMut for Image {
    fn store(&self, at: u64, word: u64) {
        self.words[usize::try_from(at / 8).unwrap()].set(word);
    }
}

impl Image {
    fn new() -> Self {
        Self::with_format(FORMAT)
    }

    fn with_format(format: &[u8]) -> Self {
        let format_bytes = u64::try_from(format.len()).unwrap();
        let layout = Layout::new(Ring::new(256, 4, true).unwrap(), 3, format_bytes).unwrap();
        let bytes = layout.bytes() + 4096;
        let header = Header {
            bytes,
            opening: 3,
            boot: [1, 2],
            monotonic_ns: OPENED,
            real_ns: 1_700_000_000_000_000_000,
            cpus: 3,
            subbuf_size: 256,
            n_subbufs: 4,
            overwrite: true,
            format_bytes,
            format_crc: Crc::new().bytes(format).finish(),
            name: name("ticks/cpu"),
            release: name("7.3.4-test"),
        };
        let image = Self {
            words: vec![Cell::new(0); usize::try_from(bytes / 8).unwrap()],
            layout,
        };
        for copy in 0..3 {
            image.put(copy * 512, &header.encode());
        }
        image.put(layout.format_at(), format);
        for cpu in 0..2 {
            image.store(layout.ctl_at(cpu) + 64, CTL_MAGIC);
        }
        image
    }

    fn put(&self, at: u64, bytes: &[u8]) {
        for (i, bytes) in bytes.chunks(8).enumerate() {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            self.store(at + 8 * u64::try_from(i).unwrap(), u64::from_le_bytes(word));
        }
    }

    /// Writes a record of 32 bytes with this number; eight fill a sub-buffer. With `OPEN` the
    /// record stays uncommitted.
    fn tick(&self, cpu: u64, number: u32, flags: u16) {
        let reserve = self.layout.ctl_at(cpu);
        let word = Word(self.load(reserve));
        let header = ring::Header {
            len: 12,
            kind: 1,
            flags: flags | TIMED,
        };
        assert_eq!(header.bytes(), 32);
        let at = self.layout.data_at(cpu, word.position());
        self.store(at, header.to_word());
        self.store(at + 8, OPENED + u64::from(number) * 1000);
        self.store(at + 16, u64::from(number));
        let open = u64::from(flags & OPEN != 0);
        self.store(
            reserve,
            Word::new(word.position() + 32, word.in_flight() + open).0,
        );
    }

    fn ticks(&self, cpu: u64, numbers: std::ops::Range<u32>) {
        numbers.for_each(|number| self.tick(cpu, number, 0));
    }

    fn seal(&self, reason: Reason) {
        for cpu in 0..2 {
            let mut sealing = checksum::Sealing::begin(self, &self.layout, cpu, reason);
            while !sealing.step(self, &self.layout) {}
        }
    }

    fn flip(&self, at: u64, bit: u32) {
        self.store(at, self.load(at) ^ (1 << bit));
    }

    /// Recovers from a copy in a directory; the output is `rec` there.
    fn recover(&self, args: &[&str]) -> (tempfile::TempDir, Output) {
        let dir = tempfile::tempdir().unwrap();
        let bytes: Vec<_> = self
            .words
            .iter()
            .flat_map(|word| word.get().to_le_bytes())
            .collect();
        fs::write(dir.path().join("image"), bytes).unwrap();
        let output = run(dir.path(), args);
        (dir, output)
    }
}

fn run(dir: &Path, args: &[&str]) -> Output {
    let mut command = ferrotrace();
    command
        .args(["recover", "--image"])
        .arg(dir.join("image"))
        .arg("-o")
        .arg(dir.join("rec"))
        .args(args);
    command.output().unwrap()
}

fn export(dir: &Path, args: &[&str]) -> String {
    stdout(&succeed(
        ferrotrace().arg("export").args(args).arg(dir.join("rec")),
    ))
}

/// Returns the CPU and the number of each tick in a recording, in order of time.
fn numbers(dir: &Path) -> Vec<(u64, u64)> {
    let text = export(dir, &["--json"]);
    let lines = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let ticks = lines.filter(|line| line["fields"]["n"].is_u64());
    ticks
        .map(|line| {
            (
                line["cpu"].as_u64().unwrap(),
                line["fields"]["n"].as_u64().unwrap(),
            )
        })
        .collect()
}

#[test]
fn a_panic_leaves_all_that_the_buffers_have() {
    let image = Image::new();
    image.ticks(0, 0..10);
    // The first sub-buffers have been overwritten.
    image.ticks(1, 10..60);
    image.seal(Reason::Panic);
    let (dir, output) = image.recover(&[]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stderr(&output), "");
    let said = stdout(&output);
    assert!(
        said.contains(
            "channel ticks/cpu, opened 2023-11-14T22:13:20Z by Linux 7.3.4-test; ended by: panic\n"
        ),
        "{said}"
    );
    let kept = (0..10).map(|n| (0, n)).chain((34..60).map(|n| (1, n)));
    assert_eq!(numbers(dir.path()), kept.collect::<Vec<_>>());
    assert!(!dir.path().join("rec/cpu2").exists());
    assert_eq!(fs::read(dir.path().join("rec/format")).unwrap(), FORMAT);
    let wall = export(dir.path(), &["--wall", "--limit", "1"]);
    assert!(wall.contains("2023-11-14"), "{wall}");
}

#[test]
fn what_was_hit_is_told_and_not_shown() {
    let image = Image::new();
    image.ticks(0, 0..20);
    image.ticks(1, 20..30);
    image.seal(Reason::Panic);
    image.flip(0, 40);
    image.flip(image.layout.data_at(0, 300), 3);
    image.flip(image.layout.ctl_at(1), 5);
    let (dir, output) = image.recover(&[]);
    let warned = stderr(&output);
    for line in [
        "1 of 3 copies of the channel's description are damaged",
        "cpu 0: 256 bytes in 1 sub-buffers are not what they were, from 256 on: they were left out",
        "cpu 1: the control page contradicts its seal, which was believed",
    ] {
        assert!(
            warned.contains(&format!("ferrotrace: warning: {line}\n")),
            "{warned}"
        );
    }
    assert_eq!(warned.lines().count(), 3);
    let whole = (0..8)
        .chain(16..20)
        .map(|n| (0, n))
        .chain((20..30).map(|n| (1, n)));
    assert_eq!(numbers(dir.path()), whole.collect::<Vec<_>>());
}

#[test]
fn an_open_record_is_told() {
    let image = Image::new();
    image.ticks(0, 0..3);
    image.tick(0, 3, OPEN);
    image.ticks(0, 4..5);
    image.seal(Reason::Panic);
    let (dir, output) = image.recover(&["--json"]);
    assert!(
        stderr(&output)
            .contains("cpu 0: 1 records were being written, the first at 96: they were left out")
    );
    assert_eq!(numbers(dir.path()), [(0, 0), (0, 1), (0, 2), (0, 4)]);
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&said["end"], &said["recording"]["cpus"][0]["records"]),
        (&"panic".into(), &4.into())
    );
}

#[test]
fn without_a_seal_the_user_decides() {
    let image = Image::new();
    image.ticks(0, 0..3);
    let (dir, output) = image.recover(&[]);
    assert!(stdout(&output).contains("ended by: unknown"));
    assert!(stderr(&output).contains("cpu 0: 3 records have no checksum: they look right"));
    assert_eq!(numbers(dir.path()).len(), 3);
    let again = run(dir.path(), &["--sealed", "--force"]);
    assert!(stderr(&again).contains("cpu 0: 3 records have no checksum: they were left out"));
    assert_eq!(numbers(dir.path()), []);
    // An existing recording is not overwritten.
    assert!(!run(dir.path(), &[]).status.success());
}

#[test]
fn other_memory_is_refused() {
    let image = Image::new();
    image.seal(Reason::Closed);
    let refused = |change: &dyn Fn(&mut Vec<u8>), why: &str| {
        let (dir, _) = image.recover(&[]);
        let path = dir.path().join("image");
        let mut bytes = fs::read(&path).unwrap();
        change(&mut bytes);
        fs::write(&path, bytes).unwrap();
        fs::remove_dir_all(dir.path().join("rec")).unwrap();
        let output = run(dir.path(), &[]);
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains(why), "{}", stderr(&output));
        assert!(!dir.path().join("rec").exists());
    };
    refused(&|bytes| bytes.truncate(100), "no channel is in this memory");
    refused(&|bytes| bytes.fill(0), "no channel is in this memory");
    refused(&|bytes| bytes.fill(0xff), "no channel is in this memory");
    refused(
        &|bytes| bytes.truncate(8192),
        "not one of memory of 8192 bytes",
    );
    refused(
        &|bytes| bytes.extend([0; 4096]),
        "the description of the channel is not one of memory of",
    );
    refused(
        &|bytes| (0..3).for_each(|copy| bytes[copy * 512 + 30] ^= 1),
        "damaged beyond repair",
    );
}

#[test]
fn a_damaged_description_of_records_is_left_out() {
    let image = Image::new();
    image.ticks(0, 0..3);
    image.seal(Reason::Restart);
    image.flip(image.layout.format_at() + 8, 3);
    let (dir, output) = image.recover(&[]);
    assert!(stderr(&output).contains("the text that describes the records is damaged"));
    assert!(!dir.path().join("rec/format").exists());
    assert!(stdout(&output).contains("total  : 3 records"));
}

/// `record --keep` writes the description of the records to a directory, and its identity to the memory.
#[test]
fn the_description_of_a_kept_recording() {
    let plain = String::from_utf8_lossy(FORMAT).replace("ID: 1", "ID: 0");
    let image = Image::with_format(format!("recording: some-boot.5\n\n{plain}").as_bytes());
    image.ticks(0, 0..3);
    image.seal(Reason::Panic);
    let (dir, output) = image.recover(&[]);
    assert!(
        stderr(&output).contains("--described REC adds them"),
        "{}",
        stderr(&output)
    );
    assert_eq!(numbers(dir.path()), []);

    let kept = dir.path().join("kept");
    fs::create_dir(&kept).unwrap();
    let format = FORMAT.to_vec();
    let text = String::from_utf8(format).unwrap()
        + "\tfield:u64 stack[];\toffset:4;\tsize:0;\tsigned:0;\n";
    fs::write(kept.join("format"), &text).unwrap();
    fs::write(kept.join("kallsyms"), "ffffffff81000000 T dead_function\n").unwrap();
    let describe = |boot: &str| {
        let text = format!(
            r#"{{"version": 2, "complete": true, "channel": "flight", "name": "cpu", "records": "fast", "method": "kept",
            "mode": "overwrite", "header": 0, "subbuf_size": null, "n_subbufs": null, "start_unix_ns": 5,
            "start_monotonic_ns": 5, "host": "dead", "boot_id": "{boot}", "duration_ns": 0, "stop": null, "dropped": null,
            "cpus": []}}"#
        );
        fs::write(kept.join("metadata.json"), text).unwrap();
    };
    let described = ["--force", "--described", kept.to_str().unwrap()];
    describe("another-boot");
    let output = run(dir.path(), &described);
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    assert!(
        said.contains("describes the recording another-boot.5, and the memory has some-boot.5"),
        "{said}"
    );
    describe("some-boot");
    let output = run(dir.path(), &described);
    assert_eq!(stderr(&output), "");
    assert_eq!(numbers(dir.path()), [(0, 0), (0, 1), (0, 2)]);
    let rec = dir.path().join("rec");
    assert!(rec.join("kallsyms").exists());
    let metadata: Value =
        serde_json::from_slice(&fs::read(rec.join("metadata.json")).unwrap()).unwrap();
    assert_eq!(
        (&metadata["boot_id"], &metadata["host"]),
        (&"some-boot".into(), &"dead".into())
    );
    // The memory of another client.
    let image = Image::new();
    image.seal(Reason::Panic);
    let (dir, output) = image.recover(&described);
    assert!(
        stderr(&output).contains("and the memory has none of \"record --keep\""),
        "{}",
        stderr(&output)
    );
    assert!(!dir.path().join("rec").exists());
}

#[test]
fn the_kernel_has_to_offer_the_memory() {
    let dir = tempfile::tempdir().unwrap();
    let output = {
        let mut command = ferrotrace();
        command
            .args(["recover", "flight", "--dir"])
            .arg(dir.path().join("none"))
            .arg("-o")
            .arg(dir.path().join("rec"));
        command.output().unwrap()
    };
    assert!(
        stderr(&output)
            .contains("no such directory (is debugfs mounted, and ferrotrace_fast_relay loaded?)")
    );
    assert_eq!(
        ferrotrace()
            .args(["recover", "-o", "x"])
            .output()
            .unwrap()
            .status
            .code(),
        Some(2)
    );
}
