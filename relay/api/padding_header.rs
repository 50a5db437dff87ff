// SPDX-License-Identifier: GPL-2.0

//! Sub-buffers that begin with their padding, and what is said when a buffer is full.
//!
//! Contexts: [`Headers::finished`] and [`Headers::full`] where a record is written.
#![deny(unsafe_code)]

use ferro_sys::cpu;
use ferro_sys::cpu::irq_work::OnIrqWork;
use ferro_sys::cpu::irq_work::WithIrqWork;
use kernel::prelude::*;
use kernel::str::CString;
use kernel::sync::atomic::Acquire;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;
use kernel::sync::atomic::Release;
use kernel::sync::Arc;

/// Nothing has been said of a full buffer.
const QUIET: u32 = 0;
/// It is to be said.
const TO_SAY: u32 = 1;
/// It has been said.
const SAID: u32 = 2;

/// What a channel with headers keeps for its buffers.
pub(crate) struct Headers {
    name: CString,
    cpus: KVec<CpuHeader>,
}

/// One buffer's part.
struct CpuHeader {
    /// Sub-buffers whose header has been written. The engine counts a sub-buffer before that.
    finished: Atomic<usize>,
    full: Atomic<u32>,
}

impl Headers {
    /// For a channel that is called `name` in messages.
    ///
    /// Errors: -ENOMEM.
    pub(crate) fn new(name: &CStr) -> Result<Arc<WithIrqWork<Self>>> {
        let name = CString::try_from(name)?;
        let mut cpus = KVec::new();
        for cpu in cpu::possible() {
            // The numbers may have gaps.
            while u32::try_from(cpus.len()).is_ok_and(|len| len <= cpu.get()) {
                let quiet = CpuHeader {
                    finished: Atomic::new(0),
                    full: Atomic::new(QUIET),
                };
                cpus.push(quiet, GFP_KERNEL)?;
            }
        }
        Arc::pin_init(WithIrqWork::new(Self { name, cpus }), GFP_KERNEL)
    }

    fn cpu(&self, cpu: u32) -> Option<&CpuHeader> {
        self.cpus.get(usize::try_from(cpu).ok()?)
    }

    /// The headers of so many sub-buffers are there.
    pub(crate) fn finished(&self, cpu: u32, subbufs: usize) {
        if let Some(cpu) = self.cpu(cpu) {
            // Release: who sees the count sees the headers; pairs with `produced()`.
            cpu.finished.store(subbufs, Release);
        }
    }

    /// Sub-buffers that a reader may take.
    pub(crate) fn produced(&self, cpu: u32) -> usize {
        self.cpu(cpu).map_or(0, |cpu| cpu.finished.load(Acquire))
    }

    /// There was no room. Whether that has to be said, as it is once of each buffer.
    fn is_to_say(&self, cpu: u32) -> bool {
        self.cpu(cpu).is_some_and(|cpu| {
            cpu.full.load(Relaxed) == QUIET && cpu.full.cmpxchg(QUIET, TO_SAY, Relaxed).is_ok()
        })
    }

    /// There was no room. Says so of each buffer once, where that is allowed: a record may be written with any lock held.
    pub(crate) fn full(this: &WithIrqWork<Self>, cpu: u32) {
        if this.is_to_say(cpu) {
            this.queue();
        }
    }
}

impl OnIrqWork for Headers {
    fn on_irq_work(&self) {
        for (number, cpu) in self.cpus.iter().enumerate() {
            if cpu.full.cmpxchg(TO_SAY, SAID, Relaxed).is_ok() {
                pr_warn!("{}: cpu {} buffer full\n", &*self.name, number);
            }
        }
    }
}
