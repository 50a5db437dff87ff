// SPDX-License-Identifier: GPL-2.0

//! File operations of a relay buffer.
//!
//! Contexts: process. Locks: [`Buf::reading`], around each `read()` and `splice()`. `splice()` is
//! called with the pipe locked.
#![deny(unsafe_code)]

use ferro_core::relay::Chunk;
use ferro_core::relay::Position;
use ferro_sys::cpu::task::cond_resched_killable;
use ferro_sys::fs::fops::events;
use ferro_sys::fs::fops::FileOps;
use ferro_sys::fs::fops::MmapRequest;
use ferro_sys::fs::splice::PipeDst;
use ferro_sys::fs::uaccess::UserDst;
use ferro_sys::mm::pages::PageBuf;
use ferro_sys::mm::pages::PageRef;
use ferro_sys::sync::wait::WaitQueue;
use kernel::prelude::*;
use kernel::sync::barrier;

use crate::buf::Buf;

impl FileOps for Buf {
    const MAPPABLE: bool = true;
    const SPLICEABLE: bool = true;

    /// Copies and consumes the available data that fit, without padding.
    ///
    /// An empty buffer reads as 0 bytes. Errors: -EFAULT if nothing could be copied; bytes that
    /// were not copied are not consumed. -EINTR if the task is being killed: in overwrite mode the
    /// writer may overtake the reader repeatedly.
    fn read(&self, to: &mut UserDst) -> Result {
        let _guard = self.reading.lock();
        while to.left() > 0 {
            cond_resched_killable()?;
            let old = self.position();
            let (position, chunk) = self.next_chunk(old);
            let Some(chunk) = chunk else {
                self.set_position(old, position);
                return Ok(());
            };
            let len = chunk.len.min(to.left());
            let from = Buf::memory(self).range(chunk.start.get(), len).ok_or(EIO)?;
            to.copy(from)?;
            // In overwrite mode, the writer may have wrapped around during the copy and overwritten
            // the data. The barrier orders the copy before the check.
            barrier::smp_mb(barrier::Read);
            if self.next_chunk(position).0.consumed != position.consumed {
                continue;
            }
            // Consumes a sub-buffer with its last byte, not with the next read.
            let (next, _) = self.next_chunk(position.advance(len));
            if self.set_position(old, next) {
                to.commit(len);
                // As in mainline, fdinfo shows the offset of the reader in the buffer.
                let start = self.geometry().start(self.geometry().index(next.consumed));
                to.end_at(start.get().saturating_add(next.bytes));
            }
        }
        Ok(())
    }

    fn memory(&self) -> Option<&PageBuf> {
        Some(Buf::memory(self))
    }

    /// Lends data instead of copying them. They are consumed when they have left the pipe.
    ///
    /// Errors: -EAGAIN if the pipe is full, -ENOMEM, -EINTR if the task is being killed.
    fn splice(&self, to: &mut PipeDst<'_>) -> Result {
        let _guard = self.reading.lock();
        while to.left() > 0 {
            cond_resched_killable()?;
            let old = self.position();
            let (position, chunk) = self.next_chunk(old);
            let Some(chunk) = chunk else {
                self.set_position(old, position);
                return Ok(());
            };
            let index = self.geometry().index(position.consumed);
            self.lend(index);
            // In overwrite mode, the writer may have entered the sub-buffer before the loan.
            if self.next_chunk(position).0.consumed != position.consumed {
                self.end_loan(index);
                continue;
            }
            let len = chunk.len.min(to.left());
            let lent = to.lend(chunk.start.get(), len, index.get())?;
            let (next, _) = self.next_chunk(position.advance(lent));
            // The result does not matter: the bytes are in the pipe, even if the client has
            // reported their sub-buffer as consumed since.
            self.set_position(old, next);
            let start = self.geometry().start(self.geometry().index(next.consumed));
            to.end_at(start.get().saturating_add(next.bytes));
            if lent < len {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Ends the loan of bytes of the sub-buffer with this index.
    fn give_back(&self, index: usize) {
        self.end_loan(self.geometry().index(index));
    }

    fn wait_queue(&self) -> Option<&WaitQueue> {
        Some(&self.abi.read_wait)
    }

    /// Readable if a sub-buffer is complete, or if the channel is closed and has unread data.
    fn events(&self) -> u32 {
        let mut mask = 0;
        let finalized = self.is_finalized();
        if finalized {
            mask |= events::ERR | events::HUP;
        }
        let position = self.position();
        let complete = self.view().produced != position.consumed;
        if complete || (finalized && self.next_chunk(position).1.is_some()) {
            mask |= events::IN | events::RDNORM;
        }
        mask
    }

    /// Allows a read-only mapping of the whole buffer.
    ///
    /// Errors: -EINVAL for a part of the buffer, -EPERM for a writable mapping.
    fn mmap(&self, request: &MmapRequest) -> Result {
        if request.page_offset != 0 || request.size != Buf::memory(self).len() {
            return Err(EINVAL);
        }
        if request.writable {
            return Err(EPERM);
        }
        Ok(())
    }

    fn page(&self, index: usize) -> Option<PageRef> {
        Buf::memory(self).page(index)
    }
}

impl Buf {
    fn next_chunk(&self, position: Position) -> (Position, Option<Chunk>) {
        position.next_chunk(self.geometry(), self.view(), |index| self.padding(index))
    }
}
