// SPDX-License-Identifier: GPL-2.0

//! Sub-buffers that begin with their padding, and what is said when a buffer is full.
//!
//! Contexts: [`Headers::finished`] and [`Headers::full`] where a record is written.
#![deny(unsafe_code)]

use ferro_sys::cpu;
use ferro_sys::cpu::irq_work::IrqWork;
use kernel::prelude::*;
use kernel::str::CString;
use kernel::sync::atomic::Acquire;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;
use kernel::sync::atomic::Release;

/// Bytes of the header: the sub-buffer's padding, a native `size_t`.
pub(crate) const HEADER: usize = size_of::<usize>();

/// Nothing has been said of a full buffer.
const QUIET: u32 = 0;
/// It is to be said.
const TO_SAY: u32 = 1;
/// It has been said.
const SAID: u32 = 2;

/// What a channel with headers keeps for its buffers.
#[pin_data]
pub(crate) struct Headers {
    name: CString,
    cpus: KVec<CpuHeader>,
    /// Says it where that is allowed: a record may be written with any lock held.
    #[pin]
    pub(crate) say: IrqWork,
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
    pub(crate) fn new(name: &CStr) -> Result<Pin<KBox<Self>>> {
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
        KBox::pin_init(
            pin_init!(Self {
                name,
                cpus,
                say <- crate::ffi::say_work(),
            }),
            GFP_KERNEL,
        )
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

    /// There was no room, which is said once of each buffer.
    pub(crate) fn full(&self, cpu: u32) {
        let Some(cpu) = self.cpu(cpu) else {
            return;
        };
        if cpu.full.load(Relaxed) == QUIET && cpu.full.cmpxchg(QUIET, TO_SAY, Relaxed).is_ok() {
            self.say.queue();
        }
    }

    /// Waits until nothing is left to say. Called once the channel has been closed.
    pub(crate) fn settle(&self) {
        self.say.sync();
    }

    /// Context: hard irq.
    pub(crate) fn say_full(&self) {
        for (number, cpu) in self.cpus.iter().enumerate() {
            if cpu.full.cmpxchg(TO_SAY, SAID, Relaxed).is_ok() {
                pr_warn!("{}: cpu {} buffer full\n", &*self.name, number);
            }
        }
    }
}
