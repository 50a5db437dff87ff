// SPDX-License-Identifier: GPL-2.0

//! The engine's own writing, beside that of the header's inline functions.
//!
//! Contexts: any; interrupts are off meanwhile. Locks: [`Buf::writing`], innermost; an NMI only tries
//! to take it.
#![deny(unsafe_code)]

use ferro_sys::cpu::IrqsOff;
use kernel::sync::atomic::Relaxed;
use kernel::sync::atomic::Release;

use crate::buf::Buf;

impl Buf {
    /// Writes a record of `length` bytes, which `fill` copies to the offset that it gets.
    ///
    /// False, and the record is counted as lost, if no sub-buffer is free, it does not fit in one, or
    /// this is an NMI and somebody else writes.
    pub(crate) fn try_write(&self, length: usize, fill: impl FnOnce(usize) -> bool) -> bool {
        let irqs = IrqsOff::new();
        let written = self
            .writing
            .lock_or_try(&irqs)
            .is_some_and(|_guard| self.append(length, fill));
        if !written {
            self.lost.fetch_add(1, Relaxed);
        }
        written
    }

    fn append(&self, length: usize, fill: impl FnOnce(usize) -> bool) -> bool {
        let geometry = self.geometry();
        if !geometry.fits(self.abi.offset.load(Relaxed), length) {
            self.switch(length);
        }
        let offset = self.abi.offset.load(Relaxed);
        if !geometry.fits(offset, length) {
            return false;
        }
        let index = geometry.index(self.abi.subbufs_produced.load(Relaxed));
        // No overflow, neither here nor below: the record fits in the sub-buffer.
        if !fill(geometry.start(index).get() + offset) {
            return false;
        }
        // Release: who sees the offset, in `Buf::view()`, sees the record.
        self.abi.offset.store(offset + length, Release);
        true
    }

    /// Ends the current sub-buffer. On the CPU that writes, unless the channel is global.
    pub(crate) fn flush(&self) {
        let irqs = IrqsOff::new();
        let _guard = self.writing.lock(&irqs);
        self.switch(0);
    }

    /// Records that [`Buf::try_write`] has not written.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Relaxed)
    }
}
