// SPDX-License-Identifier: GPL-2.0

//! Fast channels: the drain against a model, and `ferrotrace relay record` on simulated buffers.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic
)]

mod common;

use std::fs;
use std::fs::File;
use std::io;
use std::io::BufRead;
use std::io::BufReader;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use common::PATIENCE;
use common::exists;
use common::fail;
use common::ferrotrace;
use common::interrupt;
use common::ring::Shape;
use common::ring::Slot;
use common::ring::Writer;
use common::start;
use common::stderr;
use common::stdout;
use common::succeed;
use common::wait;
use ferrotrace::fast::drain::FastDrain;
use ferrotrace::fast::record::Header;
use ferrotrace::fast::record::Record;
use ferrotrace::fast::record::RecordReader;
use ferrotrace::fast::ring::Ring;
use ferrotrace::fast::ring::abi;
use ferrotrace::relay::output::CpuFile;
use ferrotrace::relay::tally::Tally;
use proptest::prelude::*;
use tempfile::TempDir;

const SMALL: Shape = Shape {
    subbuf_size: 256,
    n_subbufs: 4,
    overwrite: false,
};

const LARGE: Shape = Shape {
    subbuf_size: 4096,
    n_subbufs: 8,
    overwrite: false,
};

/// A record that shows by itself whether it is whole.
fn numbered(number: u64) -> Record {
    let len = usize::try_from(8 + number * 7 % 90).unwrap();
    Record {
        ty: u16::try_from(number % 1000).unwrap(),
        time: (number % 3 != 0).then_some(number * 10),
        data: number.to_ne_bytes().into_iter().cycle().take(len).collect(),
    }
}

fn number(record: &Record) -> u64 {
    u64::from_ne_bytes(record.data[..8].try_into().unwrap())
}

fn records_in(path: &Path) -> Vec<Record> {
    let mut reader = RecordReader::new(File::open(path).unwrap(), 1 << 20);
    let records = reader.by_ref().map(Result::unwrap).collect();
    assert_eq!(reader.truncated(), 0);
    records
}

/// Checks that the records are in ascending order and whole. Returns how many there are.
fn check_whole(records: &[Record]) -> usize {
    let mut last = None;
    for record in records {
        let number = number(record);
        assert_eq!(*record, numbered(number));
        assert!(last < Some(number), "{last:?} {number}");
        last = Some(number);
    }
    records.len()
}

/// A drain into a file, without the command around it.
struct Drained {
    dir: TempDir,
    drain: FastDrain,
    out: CpuFile,
}

impl Drained {
    fn new(shape: Shape, start: u64) -> (Writer, Self) {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("cpu0");
        let writer = Writer::create(&path, 0, shape, start);
        let file = File::options().read(true).write(true).open(&path).unwrap();
        let ring = Ring::open(&file, &path, true).unwrap().unwrap();
        let path = dir.path().join("out");
        let file = File::create(&path).unwrap();
        let direct = File::options()
            .write(true)
            .custom_flags(nix::fcntl::OFlag::O_DIRECT.bits())
            .open(&path);
        let out = CpuFile {
            file,
            direct: direct.ok(),
            path: path.clone(),
            tally: Tally::default(),
        };
        let drain = FastDrain::new(ring, path, 0);
        (writer, Self { dir, drain, out })
    }

    /// The same with read(2).
    fn reading(self) -> Self {
        let path = self.dir.path().join("cpu0");
        let file = File::options().read(true).write(true).open(&path).unwrap();
        let kernel = KernelRead(Ring::open(&file, &path, true).unwrap().unwrap());
        Self {
            drain: self.drain.reading(kernel),
            ..self
        }
    }

    fn records(&self) -> Vec<Record> {
        records_in(&self.dir.path().join("out"))
    }
}

/// The kernel's read(2) of a fast channel: whole records, without padding, which are consumed.
struct KernelRead(Ring);

impl Read for KernelRead {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let Self(ring) = self;
        let committed = ring.committed();
        let mut position = ring.consumed().max(ring.kept());
        let mut len = 0;
        while position < committed {
            let mut head = [0; 8];
            ring.copy(position, &mut head);
            let header = Header::decode(head);
            let size = usize::try_from(header.size()).unwrap();
            if header.flags & Header::PADDING == 0 {
                let Some(room) = into.get_mut(len..len + size) else {
                    break;
                };
                ring.copy(position, room);
                len += size;
            }
            position += header.size();
        }
        ring.consume(position);
        Ok(len)
    }
}

/// A step of what happens to a buffer.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A record is reserved, inside those that are being written.
    Begin(u16),
    /// The last record that was reserved is finished.
    End,
    Write(u16),
    Drain,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let flags = prop_oneof![5 => Just(0), 1 => Just(Header::DISCARDED)];
    let step = prop_oneof![
        2 => flags.clone().prop_map(Step::Begin),
        3 => Just(Step::End),
        6 => flags.prop_map(Step::Write),
        1 => Just(Step::Drain),
    ];
    prop::collection::vec(step, 0..200)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever the writer is in the middle of, the file has each record that was committed and not
    /// discarded, once, whole and in order; those that are not there have been counted.
    #[test]
    fn the_drain_agrees_with_the_model(
        steps in steps(),
        overwrite: bool,
        read: bool,
        start in (0u64..9).prop_map(|i| i * 256),
    ) {
        let shape = Shape { overwrite, ..SMALL };
        let (mut writer, mut drained) = Drained::new(shape, start);
        if read {
            drained = drained.reading();
        }
        let mut open: Vec<(Slot, u16)> = Vec::new();
        // In the order of their positions, padding included.
        let mut written: Vec<(u64, u64, bool)> = Vec::new();
        let (mut next, mut lost) = (0u64, 0u64);
        let mut begin = |writer: &mut Writer, flags: u16| {
            let slot = writer.reserve(numbered(next));
            match slot {
                Some(_) => written.push((next, writer.position(), flags == 0)),
                None => lost += 1,
            }
            next += 1;
            slot.map(|slot| (slot, flags))
        };
        for step in steps {
            match step {
                Step::Begin(flags) if open.len() < 3 => open.extend(begin(&mut writer, flags)),
                Step::Write(flags) if open.is_empty() => {
                    if let Some((slot, flags)) = begin(&mut writer, flags) {
                        writer.fill(&slot, flags);
                        writer.commit();
                    }
                }
                Step::End => {
                    if let Some((slot, flags)) = open.pop() {
                        writer.fill(&slot, flags);
                        writer.commit();
                    }
                }
                Step::Drain => {
                    drained.drain.ready(&mut drained.out).unwrap();
                    prop_assert!(writer.consumed() <= writer.position());
                }
                _ => (),
            }
        }
        while let Some((slot, flags)) = open.pop() {
            writer.fill(&slot, flags);
            writer.commit();
        }
        drained.drain.finish(&mut drained.out).unwrap();

        let records = drained.records();
        let tally = &drained.out.tally;
        prop_assert_eq!(tally.records, u64::try_from(check_whole(&records)).unwrap());
        prop_assert_eq!(tally.lost_records, lost);
        prop_assert_eq!(writer.consumed(), writer.position());
        let wanted: Vec<_> = written.iter().filter(|w| w.2).map(|w| w.0).collect();
        let got: Vec<_> = records.iter().map(number).collect();
        if overwrite {
            prop_assert!(got.iter().all(|number| wanted.contains(number)));
            // The records that fit into the buffer without overwriting the sub-buffer are there.
            let kept = Ring::kept(drained.drain.ring());
            for &(number, end, wanted) in &written {
                prop_assert!(!wanted || end <= kept || got.contains(&number), "{number}");
            }
            if tally.overwritten_bytes == 0 {
                prop_assert_eq!(got, wanted);
            }
        } else {
            prop_assert_eq!(tally.overwritten_bytes, 0);
            prop_assert_eq!(got, wanted);
        }
    }

    /// A control page that lies, and data that is not valid, are errors and nothing worse.
    #[test]
    fn nonsense_is_an_error(
        words in prop::collection::vec(any::<u64>(), 128),
        produced in 0u64..1200,
        consumed in 0u64..1200,
        overwrite: bool,
    ) {
        let (writer, _) = Drained::new(Shape { overwrite, ..SMALL }, 0);
        let (other, mut drained) = Drained::new(Shape { overwrite, ..SMALL }, 0);
        drop(writer);
        for (i, word) in words.into_iter().enumerate() {
            other.set(abi::DATA + 8 * i, word);
        }
        other.set(abi::RESERVE, produced << 5);
        other.set(abi::CONSUMER, consumed * 8);
        let ring = {
            let path = drained.dir.path().join("cpu0");
            let file = File::options().read(true).write(true).open(&path).unwrap();
            Ring::open(&file, &path, true).unwrap().unwrap()
        };
        drained.drain = FastDrain::new(ring, "cpu0".into(), 0);
        if drained.drain.ready(&mut drained.out).is_ok() {
            let len = drained.out.file.metadata().unwrap().len();
            prop_assert_eq!(len, drained.out.tally.bytes);
        }
    }
}

/// A writer that overtakes the reader again and again: nothing torn is saved.
#[test]
fn an_overwriting_writer_races() {
    let (mut writer, mut drained) = Drained::new(
        Shape {
            overwrite: true,
            ..LARGE
        },
        0,
    );
    let stop = Arc::new(AtomicBool::new(false));
    let writing = {
        let stop = Arc::clone(&stop);
        thread::spawn(move || {
            let mut next = 0;
            while !stop.load(Ordering::Relaxed) {
                for _ in 0..2000 {
                    writer.write(numbered(next), 0);
                    next += 1;
                }
                thread::sleep(Duration::from_micros(300));
            }
            next
        })
    };
    let begin = std::time::Instant::now();
    // On a busy machine, until both have had some time.
    while begin.elapsed() < Duration::from_secs(2)
        || drained.out.tally.overwritten_bytes == 0
        || drained.out.tally.records < 2000
    {
        assert!(begin.elapsed() < PATIENCE, "nothing raced");
        drained.drain.ready(&mut drained.out).unwrap();
    }
    stop.store(true, Ordering::Relaxed);
    let written = writing.join().unwrap();
    drained.drain.finish(&mut drained.out).unwrap();
    let records = drained.records();
    let whole = check_whole(&records);
    assert_eq!(number(records.last().unwrap()), written - 1);
    assert!(whole > 1000, "{whole} of {written}");
}

/// A writer at full speed in no-overwrite mode: every record is in the file or counted.
#[test]
fn a_waiting_writer_races() {
    let (mut writer, mut drained) = Drained::new(LARGE, LARGE.size() * 3);
    let done = Arc::new(AtomicU64::new(0));
    const COUNT: u64 = 200_000;
    let writing = {
        let done = Arc::clone(&done);
        thread::spawn(move || {
            let mut written = 0;
            for next in 0..COUNT {
                written += u64::from(writer.write(numbered(next), 0));
            }
            done.store(1, Ordering::Release);
            written
        })
    };
    while done.load(Ordering::Acquire) == 0 {
        drained.drain.ready(&mut drained.out).unwrap();
    }
    drained.drain.finish(&mut drained.out).unwrap();
    let written = writing.join().unwrap();
    assert_eq!(drained.out.tally.records, written);
    assert_eq!(drained.out.tally.lost_records, COUNT - written);
    assert_eq!(
        u64::try_from(check_whole(&drained.records())).unwrap(),
        written
    );
}

/// Pieces of all lengths, from a position that is not the start of a block: the file has the
/// contents of the buffer, whichever way the pieces went.
#[test]
fn pieces_around_the_page_cache() {
    let shape = Shape {
        subbuf_size: 64 << 10,
        n_subbufs: 4,
        overwrite: false,
    };
    let (mut writer, mut drained) = Drained::new(shape, shape.size());
    // An earlier reader has stopped after a record.
    assert!(writer.write(numbered(0), 0));
    writer.set(abi::CONSUMER, writer.position());
    let ring = {
        let path = drained.dir.path().join("cpu0");
        let file = File::options().read(true).write(true).open(&path).unwrap();
        Ring::open(&file, &path, true).unwrap().unwrap()
    };
    drained.drain = FastDrain::new(ring, "cpu0".into(), 0);

    let mut next = 1;
    let start = writer.position();
    for piece in [50, 3000, 1, 2500, 4000, 700, 2, 4000] {
        for _ in 0..piece {
            next += u64::from(writer.write(numbered(next), 0));
        }
        drained.drain.ready(&mut drained.out).unwrap();
        assert_eq!(writer.consumed(), writer.position());
    }
    assert!(next > 10_000, "{next}");
    assert_eq!(drained.records(), numbers(1..next));
    assert_eq!(drained.out.tally.records, next - 1);
    let len = fs::metadata(drained.dir.path().join("out")).unwrap().len();
    assert_eq!(len, drained.out.tally.bytes);
    let aligned = if drained.out.direct.is_some() {
        start % 4096
    } else {
        0
    };
    assert_eq!(len, writer.position() - start + aligned);
}

/// A directory with a fast channel, for the command.
struct Channel {
    root: TempDir,
}

impl Channel {
    fn new() -> Self {
        let root = TempDir::new().unwrap();
        fs::create_dir(root.path().join("relay")).unwrap();
        Self { root }
    }

    fn file(&self, cpu: u32) -> PathBuf {
        self.root.path().join(format!("relay/cpu{cpu}"))
    }

    fn cpu(&self, cpu: u32, shape: Shape) -> Writer {
        Writer::create(&self.file(cpu), cpu, shape, 0)
    }

    fn out(&self) -> PathBuf {
        self.root.path().join("out")
    }

    fn command(&self, what: &str, args: &[&str]) -> Command {
        let mut command = ferrotrace();
        command
            .args(["relay", what])
            .arg(self.root.path().join("relay/cpu"));
        command.args(args);
        command
    }

    fn record(&self, args: &[&str]) -> Command {
        let mut command = self.command("record", args);
        command.arg("-o").arg(self.out());
        command
    }

    fn recorded(&self, cpu: u32) -> Vec<Record> {
        records_in(&self.out().join(format!("cpu{cpu}")))
    }

    fn metadata(&self) -> serde_json::Value {
        serde_json::from_slice(&fs::read(self.out().join("metadata.json")).unwrap()).unwrap()
    }
}

fn numbers(range: std::ops::Range<u64>) -> Vec<Record> {
    range.map(numbered).collect()
}

fn write(writer: &mut Writer, range: std::ops::Range<u64>) {
    for number in range {
        assert!(writer.write(numbered(number), 0), "{number}");
    }
}

#[test]
fn a_recording_of_several_cpus() {
    let channel = Channel::new();
    let mut cpu0 = channel.cpu(0, LARGE);
    let mut cpu5 = channel.cpu(5, SMALL);
    // Earlier losses are not counted in this recording.
    cpu0.set(abi::LOST, 11);
    write(&mut cpu0, 0..100);
    write(&mut cpu5, 0..7);
    assert!(cpu5.write(numbered(1), Header::DISCARDED));
    let child = start(&mut channel.record(&["--json", "--watermark", "128"]));
    wait(|| cpu0.consumed() == cpu0.position() && cpu5.consumed() == cpu5.position());
    assert_eq!(cpu0.get(abi::CONSUMER + abi::WATERMARK), 128);
    // More than the buffer holds; each record is written as soon as there is room.
    for number in 100..2000 {
        while !cpu0.write(numbered(number), 0) {
            thread::sleep(Duration::from_millis(1));
        }
    }
    let lost = cpu0.get(abi::LOST);
    // A CPU comes up, and has lost something before it is seen.
    let mut cpu2 = channel.cpu(2, SMALL);
    cpu2.set(abi::LOST, 3);
    write(&mut cpu2, 0..5);
    wait(|| cpu2.consumed() == cpu2.position());
    write(&mut cpu2, 5..8);
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));

    assert_eq!(channel.recorded(0), numbers(0..2000));
    assert_eq!(channel.recorded(5), numbers(0..7));
    assert_eq!(channel.recorded(2), numbers(0..8));
    let metadata = channel.metadata();
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(summary, metadata);
    assert_eq!(metadata["records"], "fast");
    assert_eq!(metadata["method"], "control-page");
    assert_eq!(metadata["mode"], "no-overwrite");
    assert_eq!(metadata["subbuf_size"], 4096);
    assert_eq!(metadata["stop"], "signal");
    assert_eq!(metadata["complete"], true);
    assert_eq!(metadata["dropped"], lost - 11 + 3);
    assert!(metadata["start_monotonic_ns"].as_u64().unwrap() > 0);
    assert_eq!(metadata["cpus"][0]["records"], 2000);
    assert_eq!(metadata["cpus"][0]["lost_records"], lost - 11);
    assert_eq!(metadata["cpus"][1]["lost_records"], 3);
    assert_eq!(metadata["cpus"][1]["cpu"], 2);
    assert_eq!(metadata["cpus"][2]["records"], 7);
}

/// Successive recordings have each record once.
#[test]
fn a_recording_goes_on_where_the_last_one_stopped() {
    let channel = Channel::new();
    let mut cpu = channel.cpu(0, SMALL);
    let mut from = 0;
    for to in [3, 4, 4, 10, 13] {
        write(&mut cpu, from..to);
        let output = succeed(&mut channel.record(&["--duration", "0.05", "--force"]));
        assert_eq!(channel.recorded(0), numbers(from..to));
        let text = stdout(&output);
        assert!(
            text.contains(&format!("{} records, 0 lost", to - from)),
            "{text}"
        );
        from = to;
    }
}

/// What was lost is in the control page, however the records are taken. read(2) of the file that
/// simulates the channel also returns the pages before the data, so no records are written here.
#[test]
fn read_counts_what_was_lost() {
    let channel = Channel::new();
    let cpu = channel.cpu(0, SMALL);
    cpu.set(abi::LOST, 3);
    let child = start(&mut channel.record(&["--read"]));
    wait(|| exists(&channel.out().join("cpu0")));
    cpu.set(abi::LOST, 8);
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    let text = stdout(&output);
    assert!(text.contains("dropped by the kernel: 5\n"), "{text}");
    assert!(text.contains("0 records, 5 lost"), "{text}");
    let metadata = channel.metadata();
    assert_eq!(metadata["records"], "fast");
    assert_eq!(metadata["method"], "read");
    assert_eq!(metadata["subbuf_size"], 256);
    assert_eq!(metadata["dropped"], 5);
    assert_eq!(metadata["cpus"][0]["lost_records"], 5);
}

/// If read(2) returns something that is not records, the recording ends.
#[test]
fn read_gives_records_or_an_error() {
    let channel = Channel::new();
    let mut cpu = channel.cpu(0, SMALL);
    write(&mut cpu, 0..3);
    let message = fail(&mut channel.record(&["--read", "--duration", "30"]));
    assert!(message.contains("that are no records"), "{message}");
}

#[test]
fn a_closed_channel_ends_the_recording() {
    let channel = Channel::new();
    let mut cpu0 = channel.cpu(0, SMALL);
    let mut cpu1 = channel.cpu(1, SMALL);
    write(&mut cpu0, 0..3);
    let child = start(&mut channel.record(&[]));
    wait(|| cpu0.consumed() == cpu0.position() && exists(&channel.out().join("cpu1")));
    write(&mut cpu0, 3..5);
    write(&mut cpu1, 0..2);
    // The files are removed, too.
    fs::remove_dir_all(channel.root.path().join("relay")).unwrap();
    cpu0.close();
    cpu1.close();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(channel.recorded(0), numbers(0..5));
    assert_eq!(channel.recorded(1), numbers(0..2));
    assert_eq!(channel.metadata()["stop"], "closed");
}

/// The end of a recording waits for a record that is being written, but not for ever.
#[test]
fn a_writer_that_never_commits() {
    let channel = Channel::new();
    let mut cpu = channel.cpu(0, SMALL);
    write(&mut cpu, 0..2);
    let slot = cpu.reserve(numbered(2)).unwrap();
    let inner = cpu.reserve(numbered(3)).unwrap();
    cpu.fill(&inner, 0);
    cpu.commit();
    succeed(&mut channel.record(&["--duration", "0.05"]));
    assert_eq!(channel.recorded(0), numbers(0..2));
    cpu.fill(&slot, 0);
    cpu.commit();
    succeed(&mut channel.record(&["--duration", "0.05", "--force"]));
    assert_eq!(channel.recorded(0), numbers(2..4));
}

/// The disk of one CPU is full: what others wrote is kept, and what was not saved is not consumed.
#[test]
fn a_full_disk() {
    let channel = Channel::new();
    let mut cpu0 = channel.cpu(0, SMALL);
    let mut cpu1 = channel.cpu(1, SMALL);
    write(&mut cpu0, 0..5);
    write(&mut cpu1, 0..5);
    fs::create_dir(channel.out()).unwrap();
    symlink("/dev/full", channel.out().join("cpu1")).unwrap();
    let message = fail(&mut channel.record(&["--force", "--duration", "30"]));
    assert!(
        message.contains("no space left") && message.contains("cpu1"),
        "{message}"
    );
    assert_eq!(channel.recorded(0), numbers(0..5));
    assert_eq!(cpu0.consumed(), cpu0.position());
    assert_eq!(cpu1.consumed(), 0);
    assert_eq!(channel.metadata()["stop"], "error");
}

/// If a file must not grow beyond a limit, it ends with whole records, and the next recording
/// continues after them.
#[test]
fn a_disk_that_fills_up() {
    let channel = Channel::new();
    let mut cpu = channel.cpu(0, LARGE);
    let written = (0..).take_while(|&i| cpu.write(numbered(i), 0)).count();
    let written = u64::try_from(written).unwrap();
    // A write beyond the limit fails with EFBIG, without a signal.
    let script = "trap '' XFSZ; ulimit -f 5; exec \"$0\" \"$@\"";
    let record = channel.record(&["--duration", "30"]);
    let mut limited = Command::new("bash");
    limited.args(["-c", script]).arg(record.get_program());
    let message = fail(limited.args(record.get_args()));
    assert!(message.contains("cannot write to"), "{message}");
    let first = channel.recorded(0);
    let len = fs::metadata(channel.out().join("cpu0")).unwrap().len();
    assert_eq!(cpu.consumed() == 0, len == 0);

    succeed(&mut channel.record(&["--duration", "0.05", "--force"]));
    let both = [first, channel.recorded(0)].concat();
    assert_eq!(both, numbers(0..written));
}

#[test]
fn a_flight_recorder_is_never_torn() {
    let channel = Channel::new();
    let shape = Shape {
        overwrite: true,
        ..LARGE
    };
    let mut cpu = channel.cpu(0, shape);
    for number in 0..3000 {
        assert!(cpu.write(numbered(number), 0));
    }
    let child = start(&mut channel.record(&[]));
    // It has blocked the signals by then.
    wait(|| exists(&channel.out().join("cpu0")));
    for number in 3000..60_000 {
        assert!(cpu.write(numbered(number), 0));
        if number % 5000 == 0 {
            thread::sleep(Duration::from_millis(20));
        }
    }
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let records = channel.recorded(0);
    check_whole(&records);
    assert_eq!(number(records.last().unwrap()), 59_999);
    let metadata = channel.metadata();
    assert_eq!(metadata["mode"], "overwrite");
    assert!(metadata["cpus"][0]["overwritten_bytes"].as_u64().unwrap() > 0);
    assert!(stdout(&output).contains("bytes overwritten"));
}

#[test]
fn control_pages_that_cannot_be() {
    let check = |offset: usize, value: u64, expected: &str| {
        let channel = Channel::new();
        let cpu = channel.cpu(0, SMALL);
        cpu.set(offset, value);
        let message = fail(&mut channel.record(&["--duration", "0.05"]));
        assert!(message.contains(expected), "{message}");
    };
    let magic = u64::from(abi::MAGIC);
    check(abi::MAGIC_VERSION, magic | 2 << 32, "version 2");
    check(abi::N_SUBBUFS, 3, "no buffer has 3 sub-buffers");
    check(abi::SUBBUF_SIZE, 0, "no buffer has 4 sub-buffers of 0");
    check(abi::MASK, 4095, "no buffer has");
    check(abi::CONSUMER, 8, "consumed position of 8");
    check(abi::RESERVE, 4096 << 2, "4096 unread bytes of 1024");
}

#[test]
fn options_that_make_no_sense() {
    let channel = Channel::new();
    let cpu = channel.cpu(0, SMALL);
    let message = fail(&mut channel.record(&["--header", "4"]));
    assert!(message.contains("fast channel"), "{message}");
    assert!(!exists(&channel.out()));
    drop(cpu);
    // Too short for the sizes that it claims.
    let file = File::options().write(true).open(channel.file(0)).unwrap();
    file.set_len(8192).unwrap();
    let message = fail(&mut channel.record(&[]));
    assert!(message.contains("shorter than"), "{message}");
}

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

/// It continues until the count is reached, the channel is closed, or the reader has gone.
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
