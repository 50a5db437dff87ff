// SPDX-License-Identifier: GPL-2.0

//! Shared words in the memory of one thread.

use super::super::*;
use core::cell::Cell;
use core::cell::RefCell;
use std::collections::BTreeMap;

/// Code that interrupts other code.
pub type Interruption = Box<dyn FnOnce(&Cells)>;

/// Plain memory.
#[derive(Default)]
pub struct Cells {
    pub reserve: Cell<u64>,
    pub limit: Cell<u64>,
    pub committed: Cell<u64>,
    pub stalled: Cell<u64>,
    pub lost: Cell<u64>,
    pub overwritten: Cell<u64>,
    pub consumed: Cell<u64>,
    pub watermark: Cell<u64>,
    /// Runs right after the next exchange that succeeds.
    pub after_exchange: RefCell<Option<Interruption>>,
    /// Runs at the next barrier.
    pub at_fence: RefCell<Option<Interruption>>,
    /// True if user space changes its words at each load.
    pub restless: Cell<bool>,
    /// Ends of the sub-buffers, by index.
    pub padded: RefCell<BTreeMap<usize, u64>>,
    /// The ring, for the index of a position; set by [`Cells::of`].
    pub ring: Option<Ring>,
}

impl Cells {
    /// The words of a buffer with padding.
    pub fn of(ring: Ring) -> Self {
        Self {
            ring: Some(ring),
            ..Self::default()
        }
    }

    /// Returns the argument of [`Ring::next_run`].
    pub fn padded(&self, index: usize) -> u64 {
        self.padded.borrow().get(&index).copied().unwrap_or(0)
    }
}

impl Words for Cells {
    fn reserve(&self) -> Word {
        Word(self.reserve.get())
    }
    fn limit(&self) -> u64 {
        self.limit.get()
    }
    fn committed(&self) -> u64 {
        self.committed.get()
    }
    fn stalled(&self) -> u64 {
        self.stalled.get()
    }
    fn consumed(&self) -> u64 {
        self.consumed.get()
    }
    fn watermark(&self) -> u64 {
        if self.restless.get() {
            self.watermark.set(self.watermark.get().wrapping_add(8));
        }
        self.watermark.get()
    }
}

impl LocalWords for Cells {
    fn exchange(&self, old: Word, new: Word) -> Result<(), Word> {
        match self.reserve() == old {
            true => {
                self.reserve.set(new.0);
                let interruption = self.after_exchange.take();
                if let Some(interruption) = interruption {
                    interruption(self);
                }
                Ok(())
            }
            false => Err(self.reserve()),
        }
    }
    fn set_limit(&self, limit: u64) {
        self.limit.set(limit);
    }
    fn exchange_committed(&self, old: u64, new: u64) -> bool {
        let same = self.committed.get() == old;
        if same {
            self.committed.set(new);
        }
        same
    }
    fn set_stalled(&self, stalled: u64) {
        self.stalled.set(stalled);
    }
    fn add_lost(&self) {
        self.lost.set(self.lost.get() + 1);
    }
    fn add_overwritten(&self, bytes: u64) {
        self.overwritten.set(self.overwritten.get() + bytes);
    }
    fn pad(&self, padding: Padding) {
        if let Some(ring) = &self.ring {
            let index = ring.index(padding.start);
            self.padded.borrow_mut().insert(index, padding.start);
        }
    }
    fn fence(&self) {
        let interruption = self.at_fence.take();
        if let Some(interruption) = interruption {
            interruption(self);
        }
    }
}
