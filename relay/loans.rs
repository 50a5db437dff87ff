// SPDX-License-Identifier: GPL-2.0

//! Sub-buffers with bytes in pipes.
//!
//! The writer does not enter such a sub-buffer: not in no-overwrite mode, since it counts as consumed
//! only when it has come back, nor in overwrite mode, where the record is lost instead. So what a
//! pipe holds does not change.
//!
//! Contexts: lending in process context under [`Buf::reading`](crate::buf::Buf::reading), coming back
//! in process context, the rest anywhere. No locks.
#![deny(unsafe_code)]

use ferro_core::relay::SubbufIndex;
use ferro_sys::task::breathe;
use kernel::prelude::*;
use kernel::processor::cpu_relax;
use kernel::sync::atomic::Acquire;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Full;
use kernel::sync::atomic::Relaxed;
use kernel::sync::atomic::Release;
use kernel::sync::barrier;

/// What is lent of a buffer.
pub(crate) struct Loans {
    subbufs: KVVec<Subbuf>,
    /// The writer is taking a sub-buffer. Written by it with a barrier behind, see
    /// [`Loans::unless_lent`]; pairs with the atomic in [`Loans::lend`].
    entering: Atomic<bool>,
}

struct Subbuf {
    /// Runs of its bytes that are in pipes. Lowered with release by who has read them; pairs with the
    /// acquire in [`Loans::is_lent`].
    runs: Atomic<usize>,
    /// Whether there have ever been any.
    ever: Atomic<bool>,
}

impl Loans {
    /// Nothing is lent. Errors: -ENOMEM, -EINTR if the task is being killed.
    pub(crate) fn new(n_subbufs: usize) -> Result<Self> {
        let mut subbufs = KVVec::with_capacity(n_subbufs, GFP_KERNEL | __GFP_NOWARN)?;
        for _ in 0..n_subbufs {
            breathe()?;
            let subbuf = Subbuf {
                runs: Atomic::new(0),
                ever: Atomic::new(false),
            };
            subbufs.push(subbuf, GFP_KERNEL)?;
        }
        Ok(Self {
            subbufs,
            entering: Atomic::new(false),
        })
    }

    /// Keeps the writer out of a sub-buffer. If it is already in, the writer's counters say so when
    /// this returns.
    pub(crate) fn lend(&self, index: SubbufIndex) {
        if let Some(subbuf) = self.subbufs.get(index.get()) {
            subbuf.ever.store(true, Relaxed);
            subbuf.runs.fetch_add(1, Full);
        }
        // Either the writer has seen this, or we see it entering. It has interrupts or preemption off
        // on another CPU and calls nobody meanwhile.
        while self.entering.load(Acquire) {
            cpu_relax();
        }
    }

    /// The opposite.
    pub(crate) fn give_back(&self, index: SubbufIndex) {
        if let Some(subbuf) = self.subbufs.get(index.get()) {
            subbuf.runs.fetch_sub(1, Release);
        }
    }

    /// Whether bytes of a sub-buffer are in pipes, or, as sockets keep pages beyond that, `shared()`.
    pub(crate) fn is_lent(&self, index: SubbufIndex, shared: impl FnOnce() -> bool) -> bool {
        let Some(subbuf) = self.subbufs.get(index.get()) else {
            return false;
        };
        subbuf.runs.load(Acquire) != 0 || (subbuf.ever.load(Relaxed) && shared())
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
