// SPDX-License-Identifier: GPL-2.0

//! Two CPUs with store buffers (x86-TSO), the writer's words, and their invariants.

use super::reader::Reader;
use super::writer::Rec;
use super::writer::PADDING_WORD;
use super::*;
use std::collections::VecDeque;

/// Offsets of the writer's words in [`Memory`]; the data follows.
pub const RESERVE: usize = 0;
pub const LIMIT: usize = 1;
pub const COMMITTED: usize = 2;
pub const STALLED: usize = 3;
pub const LOST: usize = 4;
pub const OVERWRITTEN: usize = 5;
pub const PADDED: usize = 6;
pub const DATA: usize = PADDED + 4;

/// Maximum number of the reader's accesses between two of the writer: enough to read, publish, and
/// sleep.
const MAX_STEPS: usize = 24;

/// Offsets of the reader's words.
pub const CONSUMED: usize = 0;
pub const WATERMARK: usize = 1;
pub const QUEUED: usize = 2;

/// Stores of one CPU. The CPU sees them at once; the other CPU sees them in their order, but later.
pub struct Memory {
    own: RefCell<Vec<u64>>,
    shared: RefCell<Vec<u64>>,
    buffer: RefCell<VecDeque<(usize, u64)>>,
}

impl Memory {
    fn new(words: usize) -> Self {
        Self {
            own: vec![0; words].into(),
            shared: vec![0; words].into(),
            buffer: VecDeque::new().into(),
        }
    }

    pub fn store(&self, at: usize, value: u64) {
        self.own.borrow_mut()[at] = value;
        self.buffer.borrow_mut().push_back((at, value));
    }

    /// Returns the word as the writing CPU sees it.
    pub fn load_own(&self, at: usize) -> u64 {
        self.own.borrow()[at]
    }

    /// Propagates stores to the other CPU: all, all except the last, or none.
    pub fn arrive(&self, choices: &Choices) {
        let mut buffer = self.buffer.borrow_mut();
        let arrived = match choices.choose(1 + buffer.len().min(2)) {
            0 => buffer.len(),
            1 => buffer.len() - 1,
            _ => 0,
        };
        let mut shared = self.shared.borrow_mut();
        buffer
            .drain(..arrived)
            .for_each(|(at, value)| shared[at] = value);
    }

    /// Returns the word as the other CPU sees it now.
    pub fn load(&self, at: usize) -> u64 {
        self.shared.borrow()[at]
    }

    pub fn fence(&self) {
        let mut shared = self.shared.borrow_mut();
        let buffer = &mut self.buffer.borrow_mut();
        buffer.drain(..).for_each(|(at, value)| shared[at] = value);
    }
}

/// A reserved record.
#[derive(Clone, Copy, Debug)]
pub struct Ghost {
    pub id: u64,
    /// Start of the padding before it, or of the record.
    pub from: u64,
    pub start: u64,
    pub words: u64,
    pub time: u64,
    pub open: bool,
    pub discarded: bool,
}

/// Contexts that are writing, innermost last.
#[derive(Clone, Copy)]
pub struct Frame {
    pub id: u64,
    pub bytes: u64,
    pub time: u64,
    pub discarded: bool,
    /// Position that the reader had published at the start of this attempt.
    pub consumed: u64,
}

/// Parameters of a scenario.
#[derive(Clone, Copy, Default)]
pub struct Setup {
    pub n_subbufs: usize,
    pub overwrite: bool,
    /// Watermarks of the reader, used in turn.
    pub watermarks: &'static [u64],
    /// Interruptions, each at most once, in any order.
    pub interrupts: &'static [Rec],
    /// True if there is a reader on another CPU.
    pub reader: bool,
    /// True if the reader starts together with the writer; otherwise it is asleep then.
    pub awake: bool,
    /// True if it walks from header to header, as user space does.
    pub walks: bool,
    /// True if it stores arbitrary values in its words.
    pub hostile: bool,
}

pub struct Machine<'a> {
    pub ring: Ring,
    pub setup: Setup,
    pub choices: &'a Choices,
    pub mem: Memory,
    pub theirs: Memory,
    pub reader: RefCell<Option<Reader>>,
    /// True if the reader has been woken.
    pub woken: Cell<bool>,
    /// True if the reader requests a call of `update_limit()`.
    pub request: Cell<bool>,
    pub frames: RefCell<Vec<Frame>>,
    pub ghosts: RefCell<Vec<Ghost>>,
    pub clock: Cell<u64>,
    pub next_id: Cell<u64>,
    pub fired: Cell<usize>,
    pub refused: Cell<u64>,
    /// True if the last record that needed a sub-buffer did not get it.
    pub last_full: Cell<bool>,
    /// Bounds of `overwritten`.
    pub overwritten: Cell<(u64, u64)>,
}

impl<'a> Machine<'a> {
    pub fn new(choices: &'a Choices, setup: Setup) -> Self {
        let ring = Ring::new(64, setup.n_subbufs, setup.overwrite).unwrap();
        let machine = Self {
            ring,
            setup,
            choices,
            mem: Memory::new(DATA + usize::try_from(ring.size() / 8).unwrap()),
            theirs: Memory::new(3),
            reader: Some(Reader::new()).into(),
            woken: Cell::new(false),
            request: Cell::new(false),
            frames: Vec::new().into(),
            ghosts: Vec::new().into(),
            clock: Cell::new(0),
            next_id: Cell::new(1),
            fired: Cell::new(0),
            refused: Cell::new(0),
            last_full: Cell::new(false),
            overwritten: Cell::new((0, 0)),
        };
        if setup.reader && !setup.awake {
            machine.run_reader();
        }
        machine
    }

    /// Returns the index of the word of a position.
    pub fn data(&self, position: u64) -> usize {
        DATA + usize::try_from(self.ring.offset(position) / 8).unwrap()
    }

    /// Point between two accesses of the writer.
    pub fn point(&self) {
        let interrupts = match self.frames.borrow().len() < 4 {
            true => self.setup.interrupts.len() - self.fired.get(),
            false => 0,
        };
        let step = usize::from(self.setup.reader && self.may_step());
        match self.choices.choose(1 + step + interrupts.min(1)) {
            0 => return,
            1 if step == 1 => {
                // Any number of its accesses; without limit if it waits for the writer.
                self.mem.arrive(self.choices);
                self.step_reader();
                for _ in 1..MAX_STEPS {
                    if !self.may_step() || self.choices.free(2) == 0 {
                        break;
                    }
                    self.step_reader();
                }
            }
            _ => {
                let rec = self.setup.interrupts[self.fired.get()];
                self.fired.set(self.fired.get() + 1);
                self.write(rec);
            }
        }
        // Another context interrupts, too.
        self.point();
    }

    /// Checks the result of [`Words::exchange`].
    fn exchanged(&self, old: Word, new: Word) {
        let frame = self.frames.borrow().last().copied();
        let frame = frame.expect("nobody is writing");
        let mut ghosts = self.ghosts.borrow_mut();
        if new.position() == old.position() {
            assert_eq!(new.in_flight() + 1, old.in_flight());
            let ghost = ghosts.iter_mut().find(|ghost| ghost.id == frame.id);
            ghost.expect("committed, but not reserved").open = false;
            return;
        }
        let (ring, from, end) = (&self.ring, old.position(), new.position());
        let start = end - frame.bytes;
        assert_eq!(new.in_flight(), old.in_flight() + 1);
        assert!(from <= start && start % 8 == 0);
        assert_eq!(ring.floor(start), ring.floor(end - 1), "crosses the end");
        assert!(start == from || start == ring.ceil(from), "padding");
        let open = || ghosts.iter().filter(|ghost| ghost.open);
        let kept = ring.kept(end);
        assert!(
            open().all(|ghost| ghost.from >= kept),
            "replaces a record in flight"
        );
        assert!(
            ghosts.iter().all(|ghost| ghost.time <= frame.time),
            "earlier than a record before it"
        );
        let setup = &self.setup;
        if !setup.overwrite && !setup.hostile {
            // Including the bytes that it reads next, which may be padding.
            let consumed = self.theirs.load_own(CONSUMED);
            assert!(kept <= consumed, "replaces what has not been read");
        }
        let entered = start == ring.ceil(from);
        if entered && self.setup.overwrite {
            let unread = |consumed: u64| kept - consumed.clamp(kept.saturating_sub(64), kept);
            let (least, most) = self.overwritten.get();
            let published = self.theirs.load_own(CONSUMED);
            self.overwritten
                .set((least + unread(published), most + unread(frame.consumed)));
        }
        self.last_full.set(false);
        ghosts.push(Ghost {
            id: frame.id,
            from,
            start,
            words: frame.bytes / 8,
            time: frame.time,
            open: true,
            discarded: frame.discarded,
        });
    }

    /// Loads a word of the reader.
    fn load_theirs(&self, at: usize) -> u64 {
        self.point();
        if !self.setup.hostile {
            self.theirs.arrive(self.choices);
            return self.theirs.load(at);
        }
        let position = Word(self.mem.load_own(RESERVE)).position();
        let hostile = [0, position, position + 8, 1 << 63, u64::MAX, 13];
        hostile[self.choices.choose(hostile.len())]
    }

    /// Wakes the reader if it is queued.
    pub fn wake(&self) {
        if self.load_theirs(QUEUED) != 0 {
            self.woken.set(true);
        }
    }
}

impl Words for Machine<'_> {
    fn reserve(&self) -> Word {
        self.point();
        if let Some(frame) = self.frames.borrow_mut().last_mut() {
            frame.consumed = self.theirs.load(CONSUMED);
        }
        Word(self.mem.load_own(RESERVE))
    }
    fn limit(&self) -> u64 {
        self.point();
        self.mem.load_own(LIMIT)
    }
    fn committed(&self) -> u64 {
        self.point();
        self.mem.load_own(COMMITTED)
    }
    fn stalled(&self) -> u64 {
        self.point();
        self.mem.load_own(STALLED)
    }
    fn consumed(&self) -> u64 {
        self.load_theirs(CONSUMED)
    }
    fn watermark(&self) -> u64 {
        self.load_theirs(WATERMARK)
    }
}

impl LocalWords for Machine<'_> {
    fn exchange(&self, old: Word, new: Word) -> Result<(), Word> {
        self.point();
        let found = Word(self.mem.load_own(RESERVE));
        if found != old {
            return Err(found);
        }
        self.exchanged(old, new);
        self.mem.store(RESERVE, new.0);
        Ok(())
    }
    fn set_limit(&self, limit: u64) {
        self.point();
        self.mem.store(LIMIT, limit);
    }
    fn exchange_committed(&self, old: u64, new: u64) -> bool {
        self.point();
        let same = self.mem.load_own(COMMITTED) == old;
        if same {
            assert!(new > old, "goes back");
            self.mem.store(COMMITTED, new);
            // The padding before the record has been written.
            let mut ghosts = self.ghosts.borrow_mut();
            if let Some(ghost) = ghosts.iter_mut().find(|ghost| ghost.start == new) {
                ghost.from = new;
            }
        }
        same
    }
    fn set_stalled(&self, stalled: u64) {
        self.point();
        self.mem.store(STALLED, stalled);
    }
    fn add_lost(&self) {
        self.point();
        self.mem.store(LOST, self.mem.load_own(LOST) + 1);
    }
    fn add_overwritten(&self, bytes: u64) {
        self.point();
        let sum = self.mem.load_own(OVERWRITTEN) + bytes;
        self.mem.store(OVERWRITTEN, sum);
    }
    fn pad(&self, padding: Padding) {
        self.point();
        let word = PADDING_WORD | padding.bytes;
        self.mem.store(self.data(padding.start), word);
        self.point();
        let index = self.ring.index(padding.start);
        self.mem.store(PADDED + index, padding.start);
    }
    fn fence(&self) {
        self.point();
        self.mem.fence();
    }
}
