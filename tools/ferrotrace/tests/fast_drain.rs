// SPDX-License-Identifier: GPL-2.0

//! Fast channels: the drain against a model of the kernel's side.

use std::fs;
use std::fs::File;
use std::io;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use crate::common::PATIENCE;
use crate::common::fast::LARGE;
use crate::common::fast::SMALL;
use crate::common::fast::check_whole;
use crate::common::fast::number;
use crate::common::fast::numbered;
use crate::common::fast::numbers;
use crate::common::fast::records_in;
use crate::common::ring::Shape;
use crate::common::ring::Slot;
use crate::common::ring::Writer;
use ferrotrace::fast::drain::FastDrain;
use ferrotrace::fast::record::Header;
use ferrotrace::fast::record::Record;
use ferrotrace::fast::ring::Ring;
use ferrotrace::fast::ring::abi;
use ferrotrace::relay::output::CpuFile;
use ferrotrace::relay::tally::Tally;
use proptest::prelude::*;
use tempfile::TempDir;

/// A drain into a file, without the command.
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

    /// Drains with read(2) instead.
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

/// The kernel's read(2) of a fast channel: consumes and returns whole records, without padding.
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

/// An operation on a buffer.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Reserves a record, nested in the open ones.
    Begin(u16),
    /// Commits the last reserved record.
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

    /// The file has each committed record that was not discarded, once, undamaged and in order.
    /// Missing records are counted. Holds for every state of the writer.
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
            // The records that fit into the buffer without overwriting the sub-buffer were kept.
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

    /// An invalid control page or invalid data gives an error and nothing worse.
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

/// A writer overtakes the reader repeatedly: no torn record is saved.
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
    // On a busy machine, wait until both have run for some time.
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

/// Pieces of all lengths, from a position inside a block: the file equals the buffer, however each
/// piece was written.
#[test]
fn pieces_around_the_page_cache() {
    let shape = Shape {
        subbuf_size: 64 << 10,
        n_subbufs: 4,
        overwrite: false,
    };
    let (mut writer, mut drained) = Drained::new(shape, shape.size());
    // An earlier reader stopped after a record.
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
