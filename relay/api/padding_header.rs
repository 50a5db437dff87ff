// SPDX-License-Identifier: GPL-2.0

//! Sub-buffers that begin with their padding, and the log message for a full buffer.
//!
//! Contexts: [`Headers::finished`] and [`Headers::full`] in the writing context.
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

/// A full buffer has not been reported.
const QUIET: u32 = 0;
/// The report is pending.
const TO_SAY: u32 = 1;
/// The report has been printed.
const SAID: u32 = 2;

/// State of a channel with headers in its sub-buffers.
pub(crate) struct Headers {
    name: CString,
    cpus: KVec<CpuHeader>,
}

/// State of one buffer.
struct CpuHeader {
    /// Number of sub-buffers with a written header. The engine counts a sub-buffer as produced
    /// before its header is written.
    finished: Atomic<usize>,
    full: Atomic<u32>,
}

impl Headers {
    /// Creates the state for a channel that log messages call `name`.
    ///
    /// Errors: -ENOMEM.
    pub(crate) fn new(name: &CStr) -> Result<Arc<WithIrqWork<Self>>> {
        let name = CString::try_from(name)?;
        let mut cpus = KVec::new();
        for cpu in cpu::possible() {
            // CPU numbers may have gaps.
            while u32::try_from(cpus.len()).is_ok_and(|len| len <= cpu.get()) {
                let cpu_header = CpuHeader {
                    finished: Atomic::new(0),
                    full: Atomic::new(QUIET),
                };
                cpus.push(cpu_header, GFP_KERNEL)?;
            }
        }
        Arc::pin_init(WithIrqWork::new(Self { name, cpus }), GFP_KERNEL)
    }

    fn cpu(&self, cpu: u32) -> Option<&CpuHeader> {
        self.cpus.get(usize::try_from(cpu).ok()?)
    }

    /// Records that the headers of `subbufs` sub-buffers are written.
    pub(crate) fn set_finished(&self, cpu: u32, subbufs: usize) {
        if let Some(cpu) = self.cpu(cpu) {
            // Release: a reader that sees the count sees the headers; pairs with `produced()`.
            cpu.finished.store(subbufs, Release);
        }
    }

    /// Returns the number of sub-buffers that a reader may take.
    pub(crate) fn produced(&self, cpu: u32) -> usize {
        self.cpu(cpu).map_or(0, |cpu| cpu.finished.load(Acquire))
    }

    /// Marks the report of a full buffer as pending. Returns true the first time.
    fn begin_report(&self, cpu: u32) -> bool {
        self.cpu(cpu).is_some_and(|cpu| {
            cpu.full.load(Relaxed) == QUIET && cpu.full.cmpxchg(QUIET, TO_SAY, Relaxed).is_ok()
        })
    }

    /// Reports a full buffer, once per buffer. The message is printed from an IRQ work, as any lock
    /// may be held while a record is written.
    pub(crate) fn report_full(this: &WithIrqWork<Self>, cpu: u32) {
        if this.begin_report(cpu) {
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
