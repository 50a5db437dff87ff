// SPDX-License-Identifier: GPL-2.0

//! Writes of records as by the engine, including its fast path.

use super::machine::Frame;
use super::machine::Machine;
use super::machine::CONSUMED;
use super::machine::LOST;
use super::machine::OVERWRITTEN;
use super::machine::QUEUED;
use super::machine::RESERVE;
use super::machine::STALLED;
use super::*;

/// A record to write, of this many bytes.
#[derive(Clone, Copy, Default)]
pub struct Rec {
    pub bytes: u64,
    pub discarded: bool,
    /// Records that the same context writes while this one is open.
    pub inner: &'static [Rec],
}

/// Records of these sizes.
pub const fn rec(bytes: u64) -> Rec {
    Rec {
        bytes,
        discarded: false,
        inner: &[],
    }
}

/// Header of padding, with the number of bytes added.
pub const PADDING_WORD: u64 = 1 << 63;
/// Header of a discarded record.
pub const DISCARDED_WORD: u64 = 1 << 62;

impl Machine<'_> {
    fn stamp(&self) {
        self.clock.set(self.clock.get() + 1);
        let mut frames = self.frames.borrow_mut();
        frames.last_mut().unwrap().time = self.clock.get();
    }

    /// Reserves as the engine does. Returns the start of the record, or the refusal of the slow
    /// path.
    fn reserve_record(&self, bytes: u64) -> Result<Grant, Refused> {
        let mut old = self.reserve();
        loop {
            self.stamp();
            let Some(new) = old.next(bytes, || self.limit()) else {
                let stamp = || self.stamp();
                return self
                    .ring
                    .reserve(self, bytes, stamp)
                    .map(|(grant, ())| grant);
            };
            match self.exchange(old, new) {
                Ok(()) => {
                    return Ok(Grant {
                        start: old.position(),
                        entered: None,
                        wake: false,
                    })
                }
                Err(found) => old = found,
            }
        }
    }

    /// Writes a complete record.
    pub fn write(&self, rec: Rec) {
        let id = self.next_id.get();
        self.next_id.set(id + 1);
        self.frames.borrow_mut().push(Frame {
            id,
            bytes: rec.bytes,
            time: 0,
            discarded: rec.discarded,
            consumed: self.theirs.load(CONSUMED),
        });
        match self.reserve_record(rec.bytes) {
            Ok(grant) => {
                if grant.wake {
                    self.wake();
                }
                rec.inner.iter().for_each(|inner| self.write(*inner));
                for word in 0..rec.bytes / 8 {
                    // An interruption at the start, in the middle and at the end.
                    if word < 2 {
                        self.point();
                    }
                    let flag = match rec.discarded && word == 0 {
                        true => DISCARDED_WORD,
                        false => 0,
                    };
                    let at = self.data(grant.start + 8 * word);
                    self.mem.store(at, flag | (id << 8) | word);
                }
                self.ring.commit(self);
            }
            Err(why) => {
                self.refused.set(self.refused.get() + 1);
                if let Refused::Full { wake } = why {
                    self.last_full.set(true);
                    self.check_refusal();
                    if wake {
                        self.wake();
                    }
                }
            }
        }
        self.frames.borrow_mut().pop();
    }

    /// Checks that a record was refused for lack of room only: each free sub-buffer has a record
    /// that is being written or, in no-overwrite mode, an unread one.
    fn check_refusal(&self) {
        if self.setup.hostile {
            return;
        }
        let position = Word(self.mem.load_own(RESERVE)).position();
        let needed = self.ring.kept(self.ring.ceil(position) + 64);
        let consumed = self.frames.borrow().last().unwrap().consumed;
        let unread = !self.setup.overwrite && consumed < position.min(needed);
        let ghosts = self.ghosts.borrow();
        let open = ghosts.iter().filter(|ghost| ghost.open);
        let written = open.map(|ghost| ghost.from).any(|from| from < needed);
        assert!(unread || written, "refused for nothing");
    }

    /// Writes all records of a task; the reader may have the limit updated in between.
    pub fn run_task(&self, records: &[Rec]) {
        for rec in records {
            self.serve();
            self.write(*rec);
        }
        self.finish();
    }

    /// Runs on the writer's CPU, where no record of the task is open.
    fn serve(&self) {
        self.point();
        if self.request.get() {
            self.ring.refresh_limit(self);
            self.request.set(false);
        }
    }

    /// Finishes all activities, and checks the remaining state.
    fn finish(&self) {
        self.mem.fence();
        assert_eq!(self.mem.load_own(LOST), self.refused.get(), "lost");
        if self.setup.hostile {
            return self.check_content();
        }
        if self.setup.reader {
            self.run_reader();
            while self.request.get() {
                self.serve();
                self.mem.fence();
                self.run_reader();
            }
            let reserved = Word(self.mem.load_own(RESERVE)).position();
            let consumed = self.theirs.load_own(CONSUMED);
            assert_ne!(self.theirs.load_own(QUEUED), 0, "the reader does not sleep");
            let watermark = self.theirs.load_own(machine::WATERMARK);
            assert!(
                self.ring.wake_position(consumed, watermark) > reserved,
                "sleeps although there is enough"
            );
            assert!(
                consumed == reserved || !self.last_full.get(),
                "sleeps although the buffer is full; stalled {}",
                self.mem.load_own(STALLED)
            );
        }
        self.drain();
        let (least, most) = self.overwritten.get();
        let overwritten = self.mem.load_own(OVERWRITTEN);
        assert!(
            (least..=most).contains(&overwritten),
            "overwritten: {overwritten} not in {least}..={most}"
        );
    }

    /// Checks that all records that have not been overwritten are present, for any actions of the
    /// reader.
    fn check_content(&self) {
        let kept = self.ring.kept(Word(self.mem.load_own(RESERVE)).position());
        for ghost in self.ghosts.borrow().iter() {
            assert!(!ghost.open);
            for word in (0..ghost.words).filter(|_| ghost.start >= kept) {
                let at = self.data(ghost.start + 8 * word);
                assert_eq!(
                    self.mem.load_own(at) & !DISCARDED_WORD,
                    (ghost.id << 8) | word
                );
            }
        }
    }
}
