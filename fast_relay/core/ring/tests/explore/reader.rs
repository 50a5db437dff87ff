// SPDX-License-Identifier: GPL-2.0

//! The reader on the other CPU, one access at a time.

use super::machine::Machine;
use super::machine::COMMITTED;
use super::machine::CONSUMED;
use super::machine::LIMIT;
use super::machine::PADDED;
use super::machine::QUEUED;
use super::machine::RESERVE;
use super::machine::STALLED;
use super::machine::WATERMARK;
use super::writer::DISCARDED_WORD;
use super::writer::PADDING_WORD;
use super::*;

/// Replay of the loads of a ring function. The function is called again for each access: it gets
/// the results of the earlier accesses, and does the next one.
struct Replay<'m, 'a> {
    machine: &'m Machine<'a>,
    log: RefCell<&'m mut Vec<u64>>,
    at: Cell<usize>,
    done: Cell<bool>,
}

impl Replay<'_, '_> {
    fn load(&self, access: impl FnOnce(&Machine<'_>) -> u64) -> u64 {
        let (at, mut log) = (self.at.get(), self.log.borrow_mut());
        self.at.set(at + 1);
        if let Some(value) = log.get(at) {
            return *value;
        }
        if self.done.replace(true) {
            // The function needs more accesses: its result is not used.
            return 0;
        }
        let value = access(self.machine);
        log.push(value);
        value
    }

    fn load_word(&self, at: usize) -> u64 {
        self.load(|machine| machine.mem.load(at))
    }
}

impl Words for Replay<'_, '_> {
    fn reserve(&self) -> Word {
        Word(self.load_word(RESERVE))
    }
    fn limit(&self) -> u64 {
        self.load_word(LIMIT)
    }
    fn committed(&self) -> u64 {
        self.load_word(COMMITTED)
    }
    fn consumed(&self) -> u64 {
        self.load(|machine| machine.theirs.load_own(CONSUMED))
    }
    fn watermark(&self) -> u64 {
        self.load(|machine| machine.theirs.load_own(WATERMARK))
    }
    fn stalled(&self) -> u64 {
        self.load_word(STALLED)
    }
}

/// Next action of the reader.
#[derive(Clone)]
enum Phase {
    Sample,
    Copy {
        start: u64,
        copied: Vec<u64>,
        bytes: u64,
    },
    Check {
        start: u64,
        copied: Vec<u64>,
    },
    Publish,
    Watermark,
    Queue,
    IsDue {
        again: bool,
    },
    IsLate,
    Asked,
    Asleep,
}

/// A reader that keeps its own position.
pub struct Reader {
    phase: Phase,
    log: Vec<u64>,
    position: u64,
    /// Next record, as an index into all reserved ones.
    next: usize,
    watermark: usize,
}

impl Reader {
    pub fn new() -> Self {
        Self {
            phase: Phase::Sample,
            log: Vec::new(),
            position: 0,
            next: 0,
            watermark: 0,
        }
    }
}

impl Machine<'_> {
    /// Returns true if the reader can continue.
    pub fn may_step(&self) -> bool {
        match self.reader.borrow().as_ref().map(|reader| &reader.phase) {
            Some(Phase::Asleep) => self.woken.get(),
            Some(Phase::Asked) => !self.request.get(),
            _ => true,
        }
    }

    /// Lets the reader run until it waits for the writer.
    pub fn run_reader(&self) {
        // A record in flight would make it poll repeatedly: there is none during this call.
        for _ in 0..1000 {
            if !self.may_step() {
                return;
            }
            self.step_reader();
        }
        panic!("the reader does not come to rest");
    }

    /// Reads the remaining records, without waiting.
    pub fn drain(&self) {
        let idle =
            |reader: &Reader| !matches!(reader.phase, Phase::Copy { .. } | Phase::Check { .. });
        loop {
            let before = self.reader.borrow().as_ref().map(|reader| reader.position);
            let mut reader = self.reader.take().unwrap();
            reader.log.clear();
            reader.phase = Phase::Sample;
            while {
                self.access(&mut reader);
                !idle(&reader) || matches!(reader.phase, Phase::Sample)
            } {}
            self.theirs.store(CONSUMED, reader.position);
            *self.reader.borrow_mut() = Some(reader);
            if before == self.reader.borrow().as_ref().map(|reader| reader.position) {
                break;
            }
        }
        let next = self.reader.borrow().as_ref().map(|reader| reader.next);
        assert_eq!(next, Some(self.ghosts.borrow().len()), "not all was read");
    }

    /// Does one access of the reader.
    pub fn step_reader(&self) {
        let mut reader = self.reader.take().expect("the reader within itself");
        self.access(&mut reader);
        *self.reader.borrow_mut() = Some(reader);
    }

    /// Continues a function of the ring by one access. Returns its result if it has finished.
    fn call<T>(
        &self,
        log: &mut Vec<u64>,
        function: impl FnOnce(&Replay<'_, '_>) -> T,
    ) -> Option<T> {
        let replay = Replay {
            machine: self,
            at: Cell::new(0),
            done: Cell::new(false),
            log: RefCell::new(&mut *log),
        };
        let result = function(&replay);
        let through = replay.at.get() == replay.log.borrow().len();
        if through {
            log.clear();
        }
        through.then_some(result)
    }

    fn access(&self, reader: &mut Reader) {
        let load = |at| self.mem.load(at);
        match reader.phase.clone() {
            Phase::Sample => {
                if let Some(sample) = self.call(&mut reader.log, |words| Sample::new(words)) {
                    self.sampled(reader, sample);
                }
            }
            Phase::Copy {
                start,
                mut copied,
                bytes,
            } => {
                // In two halves.
                let words = bytes / 8;
                let half = match copied.len() {
                    0 => words.div_ceil(2),
                    _ => words,
                };
                while (copied.len() as u64) < half {
                    copied.push(self.mem.load(self.data(start + 8 * copied.len() as u64)));
                }
                reader.phase = match half == words {
                    true => Phase::Check { start, copied },
                    false => Phase::Copy {
                        start,
                        copied,
                        bytes,
                    },
                };
            }
            Phase::Check { start, copied } => {
                let kept = match self.setup.overwrite {
                    true => self.ring.kept(Word(load(RESERVE)).position()),
                    false => 0,
                };
                if kept <= start {
                    self.accept(reader, start, &copied);
                }
                reader.phase = match kept <= start {
                    true => Phase::Publish,
                    false => Phase::Sample,
                };
            }
            Phase::Publish => {
                self.theirs.store(CONSUMED, reader.position);
                reader.phase = Phase::Sample;
            }
            Phase::Watermark => {
                let marks = self.setup.watermarks;
                let mark = marks.get(reader.watermark % marks.len().max(1));
                reader.watermark += 1;
                self.theirs.store(WATERMARK, mark.copied().unwrap_or(0));
                reader.phase = Phase::Queue;
            }
            Phase::Queue => {
                self.theirs.store(QUEUED, 1);
                self.theirs.fence();
                self.woken.set(false);
                reader.phase = Phase::IsDue { again: false };
            }
            Phase::IsDue { again } => {
                let due = self.call(&mut reader.log, |words| self.ring.is_due(words));
                match (due, again) {
                    (Some(true), _) => {
                        self.theirs.store(QUEUED, 0);
                        reader.phase = Phase::Sample;
                    }
                    (Some(false), true) => reader.phase = Phase::Asleep,
                    (Some(false), false) => reader.phase = Phase::IsLate,
                    (None, _) => {}
                }
            }
            Phase::IsLate => {
                let late = self.call(&mut reader.log, |words| self.ring.limit_is_late(words));
                if let Some(late) = late {
                    self.request.set(late);
                    reader.phase = match late {
                        true => Phase::Asked,
                        false => Phase::Asleep,
                    };
                }
            }
            Phase::Asked => reader.phase = Phase::IsDue { again: true },
            Phase::Asleep => {
                self.woken.set(false);
                reader.phase = Phase::IsDue { again: false };
            }
        }
    }

    fn sampled(&self, reader: &mut Reader, sample: Sample) {
        let before = reader.position;
        let (position, run) = match self.setup.walks {
            false => self
                .ring
                .next_run(sample, before, |index| self.mem.load(PADDED + index)),
            true => {
                let start = self.ring.position_of(sample, before);
                let end = sample.committed.min(self.ring.floor(start) + 64);
                let bytes = end.saturating_sub(start);
                (start, (bytes > 0).then_some(Run { start, bytes }))
            }
        };
        reader.position = position;
        reader.phase = match run {
            Some(Run { start, bytes }) => Phase::Copy {
                start,
                copied: Vec::new(),
                bytes,
            },
            None if position != before => Phase::Publish,
            None => Phase::Watermark,
        };
    }

    /// Accepts the copied words: complete records that follow the previous ones.
    fn accept(&self, reader: &mut Reader, start: u64, copied: &[u64]) {
        let ghosts = self.ghosts.borrow();
        let mut rest = copied;
        let mut position = start;
        while let [first, ..] = rest {
            let words = match first & PADDING_WORD {
                0 => {
                    let found = ghosts.iter().position(|ghost| ghost.start == position);
                    let index = found.expect("no record is here");
                    let ghost = ghosts[index];
                    assert!(!ghost.open, "uncommitted");
                    assert_eq!(first & DISCARDED_WORD != 0, ghost.discarded);
                    let words = usize::try_from(ghost.words).unwrap();
                    assert!(words <= rest.len(), "not the whole record");
                    for (word, found) in (0..).zip(&rest[..words]) {
                        assert_eq!(found & !DISCARDED_WORD, (ghost.id << 8) | word, "damaged");
                    }
                    let in_order =
                        index == reader.next || (index > reader.next && self.setup.overwrite);
                    assert!(in_order, "{index} instead of {}", reader.next);
                    reader.next = index + 1;
                    words
                }
                _ => {
                    assert!(self.setup.walks, "padding is shown");
                    usize::try_from((first & !PADDING_WORD) / 8).unwrap()
                }
            };
            rest = rest.get(words..).expect("padding crosses the end");
            position += 8 * words as u64;
        }
        reader.position = position;
    }
}
