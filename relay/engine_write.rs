// SPDX-License-Identifier: GPL-2.0

//! Writes through the engine. Most C clients use the header's inline functions instead, which call
//! the engine only to move to the next sub-buffer.
//!
//! Contexts: any, also within a write to the same buffer, from a probe or an NMI; interrupts are
//! off during the write. Locks: [`Buf::writing`], innermost.
#![deny(unsafe_code)]

use ferro_sys::cpu::with_irqs_off;
use ferro_sys::cpu::IrqsOff;
use kernel::sync::atomic::Relaxed;
use kernel::sync::atomic::Release;

use crate::buf::Buf;

impl Buf {
    /// Writes a record of `length` bytes; `fill` copies the bytes to the offset passed to it.
    ///
    /// Returns false and counts the record as lost if no sub-buffer is free, if it does not fit
    /// into one, or if another writer is active and must not be waited for.
    pub(crate) fn try_write(
        &self,
        irqs: &IrqsOff,
        length: usize,
        fill: impl FnOnce(usize) -> bool,
    ) -> bool {
        let written = self
            .writing
            .enter(irqs)
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
        // Cannot overflow, here or below: the record fits in the sub-buffer.
        if !fill(geometry.start(index).get() + offset) {
            return false;
        }
        // Release: a reader that sees the offset in `Buf::view()` sees the record.
        self.abi.offset.store(offset + length, Release);
        true
    }

    /// Calls [`Buf::switch`] for the inline functions of the header. If this call has interrupted a
    /// switch, write or flush of the buffer, it only counts the record as lost.
    pub(crate) fn try_switch(&self, length: usize) -> usize {
        with_irqs_off(|irqs| match self.writing.enter(irqs) {
            Some(_guard) => self.switch(length),
            None => {
                self.lost.fetch_add(1, Relaxed);
                0
            }
        })
    }

    /// Ends the current sub-buffer. Runs on the CPU that writes, unless the channel is global.
    ///
    /// Does nothing within a write to the buffer: the sub-buffer is not complete then.
    pub(crate) fn flush(&self) {
        with_irqs_off(|irqs| {
            if let Some(_guard) = self.writing.enter(irqs) {
                self.switch(0);
            }
        });
    }

    /// Returns the number of records that [`Buf::try_write`] or [`Buf::try_switch`] has refused.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Relaxed)
    }
}
