// SPDX-License-Identifier: GPL-2.0

//! The engine's own writing, beside that of the header's inline functions.
//!
//! Contexts: any, a write to the same buffer included, be it by a probe or an NMI; interrupts are off meanwhile.
//! Locks: [`Buf::writing`], innermost.
#![deny(unsafe_code)]

use ferro_sys::cpu::with_irqs_off;
use ferro_sys::cpu::IrqsOff;
use kernel::sync::atomic::Relaxed;
use kernel::sync::atomic::Release;

use crate::buf::Buf;

impl Buf {
    /// Writes a record of `length` bytes, which `fill` copies to the offset that it gets.
    ///
    /// False, and the record is counted as lost, if no sub-buffer is free, it does not fit in one, or
    /// somebody else writes and must not be waited for.
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
        // No overflow, neither here nor below: the record fits in the sub-buffer.
        if !fill(geometry.start(index).get() + offset) {
            return false;
        }
        // Release: who sees the offset, in `Buf::view()`, sees the record.
        self.abi.offset.store(offset + length, Release);
        true
    }

    /// [`Buf::switch`] for the inline functions of the header, which is refused, and the record counted as lost,
    /// if it has interrupted another switch, a write or a flush of the buffer.
    pub(crate) fn try_switch(&self, length: usize) -> usize {
        with_irqs_off(|irqs| match self.writing.enter(irqs) {
            Some(_guard) => self.switch(length),
            None => {
                self.lost.fetch_add(1, Relaxed);
                0
            }
        })
    }

    /// Ends the current sub-buffer. On the CPU that writes, unless the channel is global.
    ///
    /// Nothing happens from within a write of the buffer: its sub-buffer is not complete.
    pub(crate) fn flush(&self) {
        with_irqs_off(|irqs| {
            if let Some(_guard) = self.writing.enter(irqs) {
                self.switch(0);
            }
        });
    }

    /// Records that were refused, by [`Buf::try_write`] for whatever reason, or by [`Buf::try_switch`].
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Relaxed)
    }
}
