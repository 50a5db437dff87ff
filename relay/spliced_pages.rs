// SPDX-License-Identifier: GPL-2.0

//! Sub-buffers with bytes in pipes, and in the sockets that they were sent to.
//!
//! The writer does not enter such a sub-buffer: not in no-overwrite mode, since it counts as consumed
//! only when it has come back, nor in overwrite mode, where the record is lost instead, and counted. So
//! what a pipe holds does not change.
//!
//! A pipe gives back what it had. A socket does not: it has references to pages. So the pages are looked at
//! when the last pipe has finished with a sub-buffer, in process context, and only those between the first and the
//! last that somebody keeps are looked at again: by readers all of them, by the writer, who has interrupts off,
//! [`ScanBudget::WRITER`] at a time. The writer goes on there the next time, after a lost record.
//!
//! Contexts: lending in process context under [`Buf::reading`](crate::buf::Buf::reading), coming back
//! in process context, the rest anywhere. No locks.
#![deny(unsafe_code)]

use core::cell::Cell;

use ferro_core::relay::SubbufIndex;
use ferro_sys::cpu::task::cond_resched;
use ferro_sys::cpu::task::cond_resched_killable;
use kernel::prelude::*;
use kernel::processor::cpu_relax;
use kernel::sync::atomic::Acquire;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Full;
use kernel::sync::atomic::Relaxed;
use kernel::sync::atomic::Release;
use kernel::sync::barrier;

/// How many pages may still be looked at.
pub(crate) struct ScanBudget(Cell<usize>);

impl ScanBudget {
    /// How many the writer looks at with interrupts off.
    const WRITER: usize = 64;

    /// In any context.
    pub(crate) fn few() -> Self {
        Self(Cell::new(Self::WRITER))
    }

    /// In process context.
    pub(crate) fn all() -> Self {
        Self(Cell::new(usize::MAX))
    }

    fn take(&self) -> bool {
        let left = self.0.get().checked_sub(1);
        left.inspect(|left| self.0.set(*left)).is_some()
    }
}

/// Pages of a sub-buffer, counted from its first one, between which lies all that may be kept beyond pipes: `first` to
/// before `end`.
///
/// Packed into a word with a number that each loan changes, so that a look that began before it does not end it.
#[derive(Clone, Copy, PartialEq, Eq)]
struct PinnedRange {
    loan: u64,
    first: usize,
    end: usize,
}

impl PinnedRange {
    /// A buffer has at most 2^20 pages, and a sub-buffer may begin within one.
    const BITS: u32 = 21;
    const MASK: u64 = (1 << Self::BITS) - 1;

    fn unpack(word: u64) -> Self {
        let field = |word: u64| usize::try_from(word & Self::MASK).unwrap_or(0);
        Self {
            loan: word >> (2 * Self::BITS),
            first: field(word >> Self::BITS),
            end: field(word),
        }
    }

    fn pack(self) -> u64 {
        let field = |n: usize| u64::try_from(n).unwrap_or(0) & Self::MASK;
        self.loan << (2 * Self::BITS) | field(self.first) << Self::BITS | field(self.end)
    }
}

/// What is lent of a buffer.
pub(crate) struct Loans {
    subbufs: KVVec<Subbuf>,
    /// The writer is taking a sub-buffer. Written by it with a barrier after it, see
    /// [`Loans::unless_lent`]; pairs with the atomic in [`Loans::lend`].
    entering: Atomic<bool>,
}

struct Subbuf {
    /// Runs of its bytes that are in pipes. Lowered with release by who has read them; pairs with the
    /// acquire in [`Loans::is_lent`].
    runs: Atomic<usize>,
    /// A [`PinnedRange`], exchanged with release after a look and with full ordering by a new loan; pairs with the
    /// acquire in [`Loans::look`].
    kept: Atomic<u64>,
}

impl Loans {
    /// Nothing is lent. Errors: -ENOMEM, -EINTR if the task is being killed.
    pub(crate) fn new(n_subbufs: usize) -> Result<Self> {
        let mut subbufs = KVVec::with_capacity(n_subbufs, GFP_KERNEL | __GFP_NOWARN)?;
        for _ in 0..n_subbufs {
            cond_resched_killable()?;
            let subbuf = Subbuf {
                runs: Atomic::new(0),
                kept: Atomic::new(0),
            };
            subbufs.push(subbuf, GFP_KERNEL)?;
        }
        Ok(Self {
            subbufs,
            entering: Atomic::new(false),
        })
    }

    /// Keeps the writer out of a sub-buffer, which has parts of so many pages. If it is already in, the writer's
    /// counters say so when this returns.
    pub(crate) fn lend(&self, index: SubbufIndex, pages: usize) {
        if let Some(subbuf) = self.subbufs.get(index.get()) {
            // First: who sees the new loan in `kept` sees this.
            subbuf.runs.fetch_add(1, Full);
            loop {
                let old = subbuf.kept.load(Relaxed);
                let new = PinnedRange {
                    loan: PinnedRange::unpack(old).loan.wrapping_add(1),
                    first: 0,
                    end: pages,
                };
                if subbuf.kept.cmpxchg(old, new.pack(), Full).is_ok() {
                    break;
                }
            }
        }
        // Either the writer has seen this, or we see it entering. It has interrupts or preemption off
        // on another CPU and calls nobody meanwhile.
        while self.entering.load(Acquire) {
            cpu_relax();
        }
    }

    /// Undoes [`Loans::lend`], but for what `shared()` says of a page. Context: process.
    pub(crate) fn give_back(&self, index: SubbufIndex, shared: impl Fn(usize) -> bool) {
        let Some(subbuf) = self.subbufs.get(index.get()) else {
            return;
        };
        // The word first: a loan since then has changed it, and then its pages, which may not be in the pipe yet, are not
        // judged.
        let word = subbuf.kept.load(Acquire);
        // Before the writer has to. If two are the last, it has to.
        if subbuf.runs.load(Acquire) == 1 {
            subbuf.narrow(word, shared);
        }
        subbuf.runs.fetch_sub(1, Release);
    }

    /// Whether bytes of a sub-buffer are in pipes, or pages of it kept, as `shared()` says of a page, or are still to
    /// be looked at.
    pub(crate) fn is_lent(
        &self,
        index: SubbufIndex,
        looks: &ScanBudget,
        shared: impl Fn(usize) -> bool,
    ) -> bool {
        self.subbufs
            .get(index.get())
            .is_some_and(|subbuf| subbuf.look(looks, shared))
    }

    /// Has the writer enter a sub-buffer, unless it is lent.
    pub(crate) fn unless_lent(&self, is_lent: impl FnOnce() -> bool, enter: impl FnOnce()) -> bool {
        self.entering.store(true, Relaxed);
        // Between telling that it enters and the look at what is lent.
        barrier::smp_mb(barrier::Full);
        let free = !is_lent();
        if free {
            enter();
        }
        self.entering.store(false, Release);
        free
    }
}

impl Subbuf {
    /// Looks whether bytes are in pipes, and then which pages are still kept, from the first one on, until one is.
    fn look(&self, looks: &ScanBudget, shared: impl Fn(usize) -> bool) -> bool {
        loop {
            let word = self.kept.load(Acquire);
            if self.runs.load(Acquire) != 0 {
                return true;
            }
            let old = PinnedRange::unpack(word);
            let mut first = old.first;
            while first < old.end && looks.take() && !shared(first) {
                first += 1;
            }
            // Each further round has looks that have been taken.
            if first == old.first || self.set(word, PinnedRange { first, ..old }) {
                return first < old.end;
            }
        }
    }

    /// Finds the first and the last page that are kept, if `word` is still what is known of them. Context: process.
    fn narrow(&self, word: u64, shared: impl Fn(usize) -> bool) {
        let shared = |page: &usize| {
            if page % 1024 == 0 {
                cond_resched();
            }
            shared(*page)
        };
        let old = PinnedRange::unpack(word);
        let first = (old.first..old.end).find(shared).unwrap_or(old.end);
        let end = (first..old.end)
            .rev()
            .find(shared)
            .map_or(first, |last| last + 1);
        self.set(word, PinnedRange { first, end, ..old });
    }

    /// Notes what a look has found; false if a loan or another look came in between, whose result counts.
    fn set(&self, word: u64, new: PinnedRange) -> bool {
        // Who gave up a reference has finished with the bytes.
        barrier::smp_mb(barrier::Full);
        self.kept.cmpxchg(word, new.pack(), Release).is_ok()
    }
}
