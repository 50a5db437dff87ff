// SPDX-License-Identifier: GPL-2.0

//! A model of one CPU's buffer in the kernel, against which the drains are tested.
//!
//! The model keeps mainline's behaviour where the drains depend on it, odd parts included: the
//! count of bytes that read(2) has taken from the oldest sub-buffer survives an addition to
//! `consumed`. [`Engine`] says where engines may differ. A script says how many records the writer adds between any two
//! accesses, and in the middle of a copy from the mapping.

#![deny(unsafe_code)]

use std::cell::Cell;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::path::Path;
use std::rc::Rc;

use proptest::prelude::*;

use super::channel::CpuId;
use super::channel::Geometry;
use super::channel::Header;
use super::channel::Mode;
use super::drain::Drain;
use super::drain::Layout;
use super::drain::Sink;
use super::drain_mapped::MappedDrain;
use super::drain_read::HeaderDrain;
use super::drain_read::StreamDrain;
use super::error::Error;
use super::error::Result;
use super::source::Source;
use super::tally::Tally;

/// The start of each record, which shows where a record begins.
const MAGIC: u32 = 0xfee1_600d;

/// How engines differ.
#[derive(Clone, Copy, Debug)]
struct Engine {
    /// The count of bytes read outlives the sub-buffer that it belongs to.
    carries: bool,
    /// The position of the file is the position in the buffer.
    tells: bool,
}

/// The kernel's side.
struct Kernel {
    engine: Engine,
    geometry: Geometry,
    mode: Mode,
    header: Header,
    memory: Vec<u8>,
    padding: Vec<usize>,
    produced: usize,
    consumed: usize,
    /// Bytes of the oldest sub-buffer taken by read(2).
    read: usize,
    /// Where in its sub-buffer the next record goes; `None` while the writer waits for room.
    offset: Option<usize>,
    /// The slot that was begun last.
    slot: usize,
    serial: u32,
    /// True if a sub-buffer without data may be ended. After two of them mainline's read(2) returns
    /// bytes of the third again and again, so only mmap can be tested with them. If the buffer is
    /// full of them, read(2) returns bytes that were read long ago.
    flush_empty: bool,
    /// The records that found room.
    written: Vec<u8>,
}

impl Kernel {
    fn new(layout: &Layout, engine: Engine) -> Self {
        let geometry = layout.geometry;
        Self {
            engine,
            geometry,
            mode: layout.mode,
            header: layout.header,
            memory: vec![0; geometry.total().get()],
            padding: vec![0; geometry.n_subbufs()],
            produced: 0,
            consumed: 0,
            read: 0,
            offset: Some(layout.header.len()),
            slot: 0,
            serial: 0,
            flush_empty: false,
            written: Vec::new(),
        }
    }

    /// A record of `words` words, at least two, with its number.
    fn write(&mut self, words: usize) {
        let mut record = Vec::new();
        record.extend(MAGIC.to_ne_bytes());
        record.extend(self.serial.to_ne_bytes());
        for i in 2..words {
            record.extend((self.serial ^ u32::try_from(i).unwrap()).to_ne_bytes());
        }
        let size = self.geometry.subbuf_size();
        if self
            .offset
            .is_none_or(|offset| offset + record.len() > size)
        {
            self.switch();
        }
        if let Some(offset) = self.offset {
            assert!(offset + record.len() <= size);
            let start = self.slot * size + offset;
            self.memory[start..start + record.len()].copy_from_slice(&record);
            self.offset = Some(offset + record.len());
            self.written.extend(record);
            self.serial += 1;
        }
    }

    /// Ends the sub-buffer and begins the next, if there is room.
    fn switch(&mut self) {
        let size = self.geometry.subbuf_size();
        if let Some(offset) = self.offset.take() {
            let padding = size - offset;
            self.padding[self.slot] = padding;
            let start = self.slot * size;
            match self.header {
                Header::None => (),
                Header::U32 => self.memory[start..start + 4]
                    .copy_from_slice(&u32::try_from(padding).unwrap().to_ne_bytes()),
                Header::U64 => {
                    self.memory[start..start + 8].copy_from_slice(&padding.to_ne_bytes());
                }
            }
            self.produced += 1;
        }
        let full = self.produced - self.consumed >= self.geometry.n_subbufs();
        if !full || self.mode == Mode::Overwrite {
            self.slot = self.geometry.slot(self.produced);
            self.padding[self.slot] = 0;
            self.offset = Some(self.header.len());
        }
    }

    /// Sub-buffers that the writer may still enter.
    fn free(&self) -> usize {
        match self.mode {
            Mode::NoOverwrite => self.geometry.n_subbufs() - (self.produced - self.consumed),
            Mode::Overwrite => usize::MAX,
        }
    }

    fn add_consumed(&mut self, delta: usize) {
        if delta <= self.geometry.n_subbufs() {
            self.consumed += delta.min(self.produced - self.consumed);
            if !self.engine.carries && delta > 0 {
                self.read = 0;
            }
        }
    }

    /// Advances to the next sub-buffer if the oldest one was read to its end.
    fn settle(&mut self, slot: usize) {
        let size = self.geometry.subbuf_size();
        let being_written = slot == self.geometry.slot(self.produced) && self.offset == Some(size);
        if self.read + self.padding[slot] == size && !being_written {
            self.add_consumed(1);
            self.read = 0;
        }
    }

    /// One step of read(2): bytes of one sub-buffer, and the position after them.
    fn read_step(&mut self, want: usize) -> Option<(Vec<u8>, usize)> {
        let (size, n) = (self.geometry.subbuf_size(), self.geometry.n_subbufs());
        if self.produced != self.consumed || self.offset != Some(self.read) {
            self.settle(self.geometry.slot(self.consumed));
        }
        if self.offset.is_some() && self.produced - self.consumed >= n {
            self.consumed = self.produced - n + 1;
            self.read = 0;
        }
        let writer = self.offset.unwrap_or(size);
        if self.produced == self.consumed && (self.offset.is_none() || writer == self.read) {
            return None;
        }
        let (mut slot, mut from) = (self.geometry.slot(self.consumed), self.read % size);
        if from >= size - self.padding[slot] {
            slot = (slot + 1) % n;
            from = 0;
        }
        let end = if slot == self.slot && self.offset.is_some() {
            writer
        } else {
            size - self.padding[slot]
        };
        let len = end.saturating_sub(from).min(want);
        if len == 0 {
            return None;
        }
        let start = slot * size + from;
        let bytes = self.memory[start..start + len].to_vec();
        self.read += len;
        self.settle(slot);
        let mut position = start + len;
        if from + len + self.padding[slot] == size {
            position = (slot + 1) * size;
        }
        Some((bytes, position % (size * n)))
    }
}

/// An open relay file.
struct Opened {
    kernel: Rc<RefCell<Kernel>>,
    /// Sizes of records that the writer adds before the next accesses, 0 for none and 1 for a
    /// flush.
    script: RefCell<VecDeque<Vec<u8>>>,
    running: Rc<Cell<bool>>,
    /// The control files have been removed.
    closed: Rc<Cell<bool>>,
    position: usize,
}

impl Opened {
    /// An access to a control file.
    fn control(&self) -> Result<()> {
        if self.closed.get() {
            return Err(Error::Gone("model".into()));
        }
        self.let_the_writer_run();
        Ok(())
    }

    fn let_the_writer_run(&self) {
        if !self.running.get() {
            return;
        }
        for words in self.script.borrow_mut().pop_front().unwrap_or_default() {
            act(&mut self.kernel.borrow_mut(), words);
        }
    }
}

fn act(kernel: &mut Kernel, words: u8) {
    match words {
        0 => (),
        1 if kernel.offset != Some(0) => kernel.switch(),
        1 if kernel.flush_empty && kernel.free() > 1 => kernel.switch(),
        1 => (),
        _ => kernel.write(usize::from(words)),
    }
}

impl Source for Opened {
    fn produced(&mut self) -> Result<usize> {
        self.control()?;
        Ok(self.kernel.borrow().produced)
    }

    fn consumed(&mut self) -> Result<usize> {
        self.control()?;
        Ok(self.kernel.borrow().consumed)
    }

    fn add_consumed(&mut self, delta: usize) -> Result<()> {
        self.control()?;
        let mut kernel = self.kernel.borrow_mut();
        if delta > kernel.geometry.n_subbufs() || delta > kernel.produced - kernel.consumed {
            return Err(Error::ConsumedRefused {
                path: "model".into(),
                delta,
            });
        }
        kernel.add_consumed(delta);
        Ok(())
    }

    fn paddings(&mut self, into: &mut Vec<usize>) -> Result<()> {
        self.control()?;
        into.clone_from(&self.kernel.borrow().padding);
        Ok(())
    }

    fn copy(&self, offset: usize, into: &mut [u8]) -> Result<()> {
        let half = into.len() / 2;
        let (first, second) = into.split_at_mut(half);
        self.let_the_writer_run();
        first.copy_from_slice(&self.kernel.borrow().memory[offset..offset + half]);
        self.let_the_writer_run();
        let rest = offset + half;
        second.copy_from_slice(&self.kernel.borrow().memory[rest..rest + second.len()]);
        Ok(())
    }

    fn read(&mut self, into: &mut [u8]) -> Result<usize> {
        self.let_the_writer_run();
        let mut done = 0;
        while done < into.len() {
            let step = self.kernel.borrow_mut().read_step(into.len() - done);
            let Some((bytes, position)) = step else {
                break;
            };
            into[done..done + bytes.len()].copy_from_slice(&bytes);
            done += bytes.len();
            self.position = position;
        }
        Ok(done)
    }

    fn position(&self) -> Option<usize> {
        self.kernel.borrow().engine.tells.then_some(self.position)
    }

    fn path(&self) -> &Path {
        Path::new("model")
    }
}

/// One recording.
#[derive(Clone, Debug)]
struct Session {
    /// read(2) instead of mmap.
    read: bool,
    partial: bool,
    /// Writer's actions before each turn of the drain.
    rounds: Vec<Vec<u8>>,
    /// Writer's actions between accesses.
    script: Vec<Vec<u8>>,
    /// True if the writer continues while the recording ends.
    busy_end: bool,
    /// The recording ends because the client closes the channel.
    closes: bool,
}

fn actions(max: usize) -> impl Strategy<Value = Vec<u8>> {
    let action = prop_oneof![1 => Just(1u8), 2 => Just(0u8), 9 => 2u8..7];
    prop::collection::vec(action, 0..max)
}

fn session() -> impl Strategy<Value = Session> {
    (
        any::<bool>(),
        any::<bool>(),
        prop::collection::vec(actions(12), 0..5),
        prop::collection::vec(actions(3), 0..40),
        any::<bool>(),
    )
        .prop_map(|(read, partial, rounds, script, busy_end)| Session {
            read,
            partial,
            rounds,
            script,
            busy_end,
            closes: false,
        })
}

fn layout(header: Header, mode: Mode, words: usize, n: usize) -> Layout {
    Layout {
        cpu: CpuId(0),
        geometry: Geometry::new(header.len() + 4 * words, n).unwrap(),
        mode,
        header,
    }
}

/// Runs a recording and returns what it saved.
fn run(layout: Layout, kernel: &Rc<RefCell<Kernel>>, session: &Session) -> (Vec<u8>, Tally) {
    let running = Rc::new(Cell::new(true));
    let closed = Rc::new(Cell::new(false));
    let mut source = Opened {
        kernel: Rc::clone(kernel),
        script: RefCell::new(session.script.iter().cloned().collect()),
        running: Rc::clone(&running),
        closed: Rc::clone(&closed),
        position: 0,
    };
    let mut drain: Box<dyn Drain> = if !session.read {
        Box::new(MappedDrain::new(layout, &mut source).unwrap())
    } else if layout.header.is_empty() {
        Box::new(StreamDrain::new(Some(layout.geometry)))
    } else {
        Box::new(HeaderDrain::new(layout, &mut source).unwrap())
    };
    let mut file = Vec::new();
    let mut tally = Tally::default();
    let mut sink = Sink {
        file: &mut file,
        path: Path::new("out"),
        tally: &mut tally,
    };
    for round in &session.rounds {
        for &words in round {
            act(&mut kernel.borrow_mut(), words);
        }
        drain.ready(&mut source, &mut sink).unwrap();
    }
    running.set(session.busy_end && !session.closes);
    if session.closes {
        closed.set(true);
        drain.rest(&mut source, &mut sink).unwrap();
        return (file, tally);
    }
    drain
        .finish(&mut source, &mut sink, session.partial)
        .unwrap();
    (file, tally)
}

fn headers() -> impl Strategy<Value = Header> {
    prop_oneof![Just(Header::None), Just(Header::U32), Just(Header::U64)]
}

fn engines() -> impl Strategy<Value = Engine> {
    // With an engine that carries and does not tell there would be no way to find out.
    let engine = |carries, tells| Just(Engine { carries, tells });
    prop_oneof![
        engine(true, true),
        engine(false, true),
        engine(false, false)
    ]
}

/// The numbers of the records in `bytes`, which must be whole.
fn serials(bytes: &[u8]) -> Vec<u32> {
    let words: Vec<u32> = bytes
        .chunks(4)
        .map(|word| u32::from_ne_bytes(word.try_into().unwrap()))
        .collect();
    let mut serials = Vec::new();
    let mut i = 0;
    while i < words.len() {
        assert_eq!(words[i], MAGIC, "a record begins at word {i}");
        let serial = words[i + 1];
        let len = words[i + 2..]
            .iter()
            .position(|&word| word == MAGIC)
            .map_or(words.len() - i, |next| next + 2);
        for (j, &word) in words[i + 2..i + len].iter().enumerate() {
            assert_eq!(word, serial ^ u32::try_from(j + 2).unwrap());
        }
        serials.push(serial);
        i += len;
    }
    serials
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// In no-overwrite mode, the files of successive recordings, one after the other, hold every record once, in order,
    /// however they drain and wherever they stop.
    #[test]
    fn no_record_is_missed_or_doubled(
        carries: bool,
        header in headers(),
        words in 6usize..30,
        n in 2usize..6,
        sessions in prop::collection::vec(session(), 1..5),
        last_reads: bool,
    ) {
        let engine = Engine { carries, tells: true };
        let layout = layout(header, Mode::NoOverwrite, words, n);
        let kernel = Rc::new(RefCell::new(Kernel::new(&layout, engine)));
        // Does not hold yet with several empty sub-buffers where one recording ends and the next begins.
        kernel.borrow_mut().flush_empty = false;
        let mut saved = Vec::new();
        for session in &sessions {
            let mut session = session.clone();
            // With headers, an end that is still being written is given up, with a warning.
            session.busy_end &= header.is_empty();
            let (bytes, tally) = run(layout, &kernel, &session);
            prop_assert_eq!(&tally.warnings, &Vec::<String>::new());
            prop_assert_eq!(tally.lost_subbufs, 0);
            prop_assert_eq!(tally.bytes, u64::try_from(bytes.len()).unwrap());
            saved.extend(bytes);
        }
        let last = Session {
            read: last_reads,
            partial: true,
            rounds: vec![],
            script: vec![],
            busy_end: false,
            closes: false,
        };
        let (bytes, tally) = run(layout, &kernel, &last);
        prop_assert_eq!(&tally.warnings, &Vec::<String>::new());
        saved.extend(bytes);
        prop_assert_eq!(&saved, &kernel.borrow().written);
    }

    /// When a channel is closed, read(2) still returns everything that was not taken. (With headers, that of the
    /// unfinished sub-buffer is from its previous use and cannot be told from a valid one; here there was no previous
    /// use.)
    #[test]
    fn a_closed_channel_is_drained_to_its_end(
        header in headers(),
        words in 6usize..30,
        n in 2usize..6,
        engine in engines(),
        mut session in session(),
    ) {
        session.closes = true;
        let layout = layout(header, Mode::NoOverwrite, words, n);
        let kernel = Rc::new(RefCell::new(Kernel::new(&layout, engine)));
        let (bytes, tally) = run(layout, &kernel, &session);
        let kernel = kernel.borrow();
        if header.is_empty() || (tally.warnings.is_empty() && kernel.produced < n) {
            prop_assert_eq!(&bytes, &kernel.written);
        }
    }

    /// The first reader of a channel needs no position.
    #[test]
    fn the_first_recording_is_complete_on_any_engine(
        header in headers(),
        words in 6usize..30,
        n in 2usize..6,
        engine in engines(),
        mut session in session(),
    ) {
        session.partial = true;
        session.busy_end = false;
        let layout = layout(header, Mode::NoOverwrite, words, n);
        let kernel = Rc::new(RefCell::new(Kernel::new(&layout, engine)));
        let (bytes, tally) = run(layout, &kernel, &session);
        prop_assert_eq!(&tally.warnings, &Vec::<String>::new());
        prop_assert_eq!(&bytes, &kernel.borrow().written);
    }

    /// A writer that does not pause while the end is drained may cost the end, with a warning, but never tears a
    /// record.
    #[test]
    fn a_busy_end_is_whole(
        header in headers(),
        words in 6usize..30,
        n in 2usize..6,
        engine in engines(),
        mut session in session(),
    ) {
        session.busy_end = true;
        let layout = layout(header, Mode::NoOverwrite, words, n);
        let kernel = Rc::new(RefCell::new(Kernel::new(&layout, engine)));
        let (bytes, _) = run(layout, &kernel, &session);
        prop_assert_eq!(&kernel.borrow().written[..bytes.len()], &bytes);
    }

    /// In overwrite mode the recording has whole records in order, and each finished sub-buffer that it does not have
    /// is counted as lost.
    #[test]
    fn a_flight_recorder_gives_whole_records(
        header in headers(),
        words in 6usize..30,
        n in 1usize..6,
        engine in engines(),
        flush_empty: bool,
        mut session in session(),
    ) {
        session.read = false;
        let layout = layout(header, Mode::Overwrite, words, n);
        let kernel = Rc::new(RefCell::new(Kernel::new(&layout, engine)));
        kernel.borrow_mut().flush_empty = flush_empty;
        let (bytes, tally) = run(layout, &kernel, &session);
        let serials = serials(&bytes);
        prop_assert!(serials.is_sorted_by(|a, b| a < b), "{:?}", serials);
        let kernel = kernel.borrow();
        let accounted = usize::try_from(tally.subbufs + tally.lost_subbufs).unwrap();
        prop_assert!(accounted <= kernel.produced);
        if !session.busy_end {
            prop_assert_eq!(accounted, kernel.produced);
            if session.partial && tally.warnings.is_empty() && kernel.serial > 0
                && engine.tells && !flush_empty
                && kernel.offset > Some(header.len())
            {
                prop_assert_eq!(serials.last().copied(), Some(kernel.serial - 1));
            }
        }
    }
}
