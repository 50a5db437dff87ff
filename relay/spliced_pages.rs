// SPDX-License-Identifier: GPL-2.0

//! Sub-buffers with bytes in pipes, or in sockets that the pipes were spliced to.
//!
//! The writer does not enter such a sub-buffer, so the contents of a pipe do not change. In
//! no-overwrite mode the sub-buffer counts as consumed only after its bytes have left. In overwrite
//! mode the record is lost and counted.
//!
//! A pipe reports when its bytes have left; a socket does not: it keeps page references. So the
//! engine scans the pages for references when the last pipe is done with a sub-buffer, in process
//! context. Later scans look only at the pages between the first and the last that are still
//! referenced. Readers scan all of these. The writer has interrupts off and scans
//! [`ScanBudget::WRITER`] at a time; after a lost record, its next scan continues there.
//!
//! Contexts: loans start in process context under [`Buf::reading`](crate::buf::Buf::reading) and
//! end in process context; the rest runs in any. No locks.
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

/// Number of pages that may still be scanned.
pub(crate) struct ScanBudget(Cell<usize>);

impl ScanBudget {
    /// Pages that the writer may scan with interrupts off.
    const WRITER: usize = 64;

    /// Budget for any context.
    pub(crate) fn few() -> Self {
        Self(Cell::new(Self::WRITER))
    }

    /// Budget for process context.
    pub(crate) fn all() -> Self {
        Self(Cell::new(usize::MAX))
    }

    fn take(&self) -> bool {
        let left = self.0.get().checked_sub(1);
        left.inspect(|left| self.0.set(*left)).is_some()
    }
}

/// Range of a sub-buffer's pages that may still be referenced outside of pipes: from `first` up to,
/// not including, `end`. Pages are counted from the sub-buffer's first page.
///
/// Packed into a word with a number that each loan increments, so that a scan that began before a
/// loan cannot overwrite the loan's range.
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

/// Loans of a buffer's sub-buffers.
pub(crate) struct Loans {
    subbufs: KVVec<Subbuf>,
    /// Set while the writer enters a sub-buffer. The writer stores it with a barrier after it, see
    /// [`Loans::unless_lent`]; pairs with the atomic in [`Loans::lend`].
    entering: Atomic<bool>,
}

struct Subbuf {
    /// Number of byte runs in pipes. Lowered with release by the task that has read a run; pairs
    /// with the acquire in [`Loans::is_lent`].
    runs: Atomic<usize>,
    /// A [`PinnedRange`], exchanged with release after a scan and with full ordering by a new loan;
    /// pairs with the acquire in [`Subbuf::scan`].
    pinned: Atomic<u64>,
}

impl Loans {
    /// Creates the state without loans. Errors: -ENOMEM, -EINTR if the task is being killed.
    pub(crate) fn new(n_subbufs: usize) -> Result<Self> {
        let mut subbufs = KVVec::with_capacity(n_subbufs, GFP_KERNEL | __GFP_NOWARN)?;
        for _ in 0..n_subbufs {
            cond_resched_killable()?;
            let subbuf = Subbuf {
                runs: Atomic::new(0),
                pinned: Atomic::new(0),
            };
            subbufs.push(subbuf, GFP_KERNEL)?;
        }
        Ok(Self {
            subbufs,
            entering: Atomic::new(false),
        })
    }

    /// Keeps the writer out of a sub-buffer that spans `pages` pages. If the writer has already
    /// entered the sub-buffer, its counters show that when this returns.
    pub(crate) fn lend(&self, index: SubbufIndex, pages: usize) {
        if let Some(subbuf) = self.subbufs.get(index.get()) {
            // Incremented first: a CPU that sees the new loan in `pinned` sees this run.
            subbuf.runs.fetch_add(1, Full);
            loop {
                let old = subbuf.pinned.load(Relaxed);
                let new = PinnedRange {
                    loan: PinnedRange::unpack(old).loan.wrapping_add(1),
                    first: 0,
                    end: pages,
                };
                if subbuf.pinned.cmpxchg(old, new.pack(), Full).is_ok() {
                    break;
                }
            }
        }
        // Either the writer sees this loan, or this loop sees the writer entering. The wait is
        // short: the writer is on another CPU, with interrupts or preemption off, and calls no
        // client code.
        while self.entering.load(Acquire) {
            cpu_relax();
        }
    }

    /// Ends a loan. A page stays marked if `shared()` returns true for it. Context: process.
    pub(crate) fn end(&self, index: SubbufIndex, shared: impl Fn(usize) -> bool) {
        let Some(subbuf) = self.subbufs.get(index.get()) else {
            return;
        };
        // Loaded first: a loan that starts later changes the word, so `narrow()` stores nothing.
        // Pages of that loan may not be in the pipe yet, and would look unreferenced.
        let word = subbuf.pinned.load(Acquire);
        // Saves the writer a scan. If two callers are the last at the same time, the writer has to
        // scan.
        if subbuf.runs.load(Acquire) == 1 {
            subbuf.narrow(word, shared);
        }
        subbuf.runs.fetch_sub(1, Release);
    }

    /// Returns true if bytes of a sub-buffer are in pipes, if `shared()` returns true for one of
    /// its pages, or if the budget ends before all pages are scanned.
    pub(crate) fn is_lent(
        &self,
        index: SubbufIndex,
        budget: &ScanBudget,
        shared: impl Fn(usize) -> bool,
    ) -> bool {
        self.subbufs
            .get(index.get())
            .is_some_and(|subbuf| subbuf.scan(budget, shared))
    }

    /// Calls `enter`, unless `is_lent` returns true. Returns true if it was called.
    pub(crate) fn unless_lent(&self, is_lent: impl FnOnce() -> bool, enter: impl FnOnce()) -> bool {
        self.entering.store(true, Relaxed);
        // Orders the store to `entering` before the loads of the loans.
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
    /// Returns true if bytes are in pipes or a page is still referenced. Scans from the first
    /// marked page to the first referenced one.
    fn scan(&self, budget: &ScanBudget, shared: impl Fn(usize) -> bool) -> bool {
        loop {
            let word = self.pinned.load(Acquire);
            if self.runs.load(Acquire) != 0 {
                return true;
            }
            let old = PinnedRange::unpack(word);
            let mut first = old.first;
            while first < old.end && budget.take() && !shared(first) {
                first += 1;
            }
            // The loop ends: each further round has used up budget.
            if first == old.first || self.set(word, PinnedRange { first, ..old }) {
                return first < old.end;
            }
        }
    }

    /// Narrows the range to the first and the last page that are still referenced, unless `word`
    /// has changed. Context: process.
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

    /// Stores the result of a scan; returns false if a loan or another scan was faster.
    fn set(&self, word: u64, new: PinnedRange) -> bool {
        // A task that dropped a page reference has finished with the bytes before.
        barrier::smp_mb(barrier::Full);
        self.pinned.cmpxchg(word, new.pack(), Release).is_ok()
    }
}
