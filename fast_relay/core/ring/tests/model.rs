// SPDX-License-Identifier: GPL-2.0

//! Long random sequences of one CPU and a reader, which take turns, against a queue of words.

use super::cells::Cells;
use super::*;
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::VecDeque;

/// Fewer for Miri, which needs a second for each.
const STEPS: usize = if cfg!(miri) { 20 } else { 200 };

/// Next action.
#[derive(Clone, Debug)]
enum Step {
    /// A record of this many words is reserved and stays open.
    Open(u64),
    /// The innermost open record is committed.
    Commit,
    /// A record is written whole.
    Write(u64),
    /// The reader takes this many bytes, as `read()` does.
    Read(u64),
    /// The reader requests a wake-up after this many bytes.
    Watermark(u64),
    /// User space stores any position; a reader then continues from its true position.
    Consumed(u64),
}

/// A buffer in memory with its model: the positions of the unread words.
struct Sim {
    ring: Ring,
    words: Cells,
    memory: Vec<u64>,
    open: Vec<u64>,
    queue: VecDeque<u64>,
    refused: u64,
    hostile: bool,
}

impl Sim {
    fn new(ring: Ring) -> Self {
        Self {
            ring,
            words: Cells::of(ring),
            memory: vec![0; usize::try_from(ring.size() / 8).unwrap()],
            open: Vec::new(),
            queue: VecDeque::new(),
            refused: 0,
            hostile: false,
        }
    }

    fn word(&mut self, position: u64) -> &mut u64 {
        let index = usize::try_from(self.ring.offset(position) / 8).unwrap();
        &mut self.memory[index]
    }

    /// Reserves a record and fills it with the positions of its words.
    fn open(&mut self, words: u64) -> bool {
        let before = self.words.reserve();
        let grant = match self.reserve(words * 8) {
            Ok(grant) => grant,
            Err(why) => {
                self.refused += 1;
                assert_eq!(self.words.reserve(), before);
                self.check_refusal(why);
                return false;
            }
        };
        let end = grant.start + words * 8;
        // Positions only increase, records do not cross sub-buffers, and open records stay.
        assert!(grant.start >= before.position());
        assert_eq!(
            grant.start / self.ring.subbuf_size(),
            (end - 1) / self.ring.subbuf_size()
        );
        if let Some(oldest) = self.open.first() {
            assert!(self.ring.kept(end) <= *oldest);
        }
        if !self.ring.overwrites() && !self.hostile {
            assert!(self.ring.kept(end) <= self.words.consumed());
        }
        for position in (grant.start..end).step_by(8) {
            *self.word(position) = position;
            self.queue.push_back(position);
        }
        self.open.push(grant.start);
        true
    }

    /// Reserves as the engine does: on the fast path, if possible.
    fn reserve(&self, bytes: u64) -> Result<Grant, Refused> {
        let old = self.words.reserve();
        if let Some(next) = old.next(bytes, || self.words.limit()) {
            self.words.reserve.set(next.0);
            return Ok(Grant {
                start: old.position(),
                entered: None,
                wake: false,
            });
        }
        let (grant, ()) = self.ring.reserve(&self.words, bytes, || ())?;
        Ok(grant)
    }

    /// Checks that a record was refused for lack of room only: each free sub-buffer has a record
    /// that is being written or, in no-overwrite mode, an unread one.
    fn check_refusal(&self, why: Refused) {
        let word = self.words.reserve();
        match why {
            Refused::TooLong => {}
            Refused::Nested => assert_eq!(self.open.len(), 24),
            Refused::Full { .. } => {
                let subbuf_size = self.ring.subbuf_size();
                let end = word.position().next_multiple_of(subbuf_size) + subbuf_size;
                let needed = self.ring.kept(end);
                let consumed = self.words.consumed();
                let unread = !self.ring.overwrites() && consumed < needed.min(word.position());
                let open = self.open.first().is_some_and(|open| *open < needed);
                assert!(self.hostile || unread || open, "refused for nothing");
            }
        }
    }

    fn commit(&mut self) {
        if self.open.pop().is_some() {
            self.ring.commit(&self.words);
        }
    }

    /// Takes bytes as the kernel's `read()` does, and checks each word.
    fn read(&mut self, mut left: u64) {
        loop {
            let sample = Sample::new(&self.words);
            // Everything that is complete before the first incomplete record.
            assert!(sample.committed <= self.open.first().copied().unwrap_or(u64::MAX));
            let padded = |index: usize| self.words.padded(index);
            let (position, run) = self.ring.next_run(sample, self.words.consumed(), padded);
            let Some(run) = run.filter(|_| left > 0) else {
                self.consume(position);
                return;
            };
            if run.start % 8 != 0 {
                // A position of user space from which bytes are read, but no whole words.
                self.consume(run.start.next_multiple_of(8));
                continue;
            }
            let bytes = run.bytes.min(left) & !7;
            if bytes == 0 {
                return;
            }
            for position in (run.start..run.start + bytes).step_by(8) {
                assert_eq!(*self.word(position), position);
                self.expect(position);
            }
            left -= bytes;
            self.consume(run.start + bytes);
        }
    }

    fn consume(&mut self, position: u64) {
        self.words.consumed.set(position);
    }

    /// Checks that the word is the next one. Only a reader that was overtaken, or that user space
    /// has moved, may have missed words, or read some again.
    fn expect(&mut self, position: u64) {
        self.skip_to(position);
        if self.queue.front() == Some(&position) {
            self.queue.pop_front();
        } else {
            assert!(self.hostile, "{position} again");
        }
    }

    fn skip_to(&mut self, position: u64) {
        let kept = self.ring.kept(self.words.reserve().position());
        while let Some(missed) = self.queue.front().copied().filter(|word| *word < position) {
            self.queue.pop_front();
            assert!(missed < kept || self.hostile, "missed {missed}");
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Open(words) => {
                self.open(words);
            }
            Step::Commit => self.commit(),
            Step::Write(words) => {
                if self.open(words) {
                    self.commit();
                }
            }
            Step::Read(bytes) => self.read(bytes),
            Step::Watermark(bytes) => self.words.watermark.set(bytes),
            Step::Consumed(position) => {
                self.hostile = true;
                self.words.consumed.set(position);
            }
        }
        assert_eq!(self.words.lost.get(), self.refused);
        let in_flight = u64::try_from(self.open.len()).unwrap();
        assert_eq!(self.words.reserve().in_flight(), in_flight);
        // The writer does not pass a waiting reader unnoticed.
        let due = self.ring.is_due(&self.words);
        if !due && self.ring.limit_is_late(&self.words) {
            self.ring.refresh_limit(&self.words);
            assert!(!self.ring.limit_is_late(&self.words));
        }
    }
}

fn step(hostile: bool) -> impl Strategy<Value = Step> {
    let consumed = match hostile {
        true => prop_oneof![any::<u64>(), 0u64..2048].boxed(),
        false => Just(0).boxed(),
    };
    let weight = u32::from(hostile);
    prop_oneof![
        2 => (1u64..=10).prop_map(Step::Open),
        3 => Just(Step::Commit),
        6 => (1u64..=9).prop_map(Step::Write),
        3 => (0u64..300).prop_map(Step::Read),
        1 => prop_oneof![0u64..300, any::<u64>()].prop_map(Step::Watermark),
        weight => consumed.prop_map(Step::Consumed),
    ]
}

proptest! {
    #[test]
    fn a_queue_of_words(
        steps in vec(step(false), 1..STEPS), n_subbufs in prop_oneof![Just(2usize), Just(4)],
        overwrite: bool,
    ) {
        let mut sim = Sim::new(Ring::new(64, n_subbufs, overwrite).unwrap());
        for step in steps {
            sim.step(step);
        }
        while !sim.open.is_empty() {
            sim.commit();
        }
        // The rest is read completely.
        sim.read(!7);
        sim.skip_to(u64::MAX);
        prop_assert_eq!(sim.words.consumed.get(), sim.words.reserve().position());
    }

    #[test]
    fn any_words_of_the_reader(steps in vec(step(true), 1..STEPS), overwrite: bool) {
        let mut sim = Sim::new(Ring::new(64, 2, overwrite).unwrap());
        for step in steps {
            sim.step(step);
        }
    }
}
