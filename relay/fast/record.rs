// SPDX-License-Identifier: GPL-2.0

//! Writing records.
//!
//! Contexts: any, NMI included. No locks.
#![deny(unsafe_code)]

use ferro_core::ring::Header;
use ferro_core::ring::Refused;
use ferro_core::ring::TIMED;
use ferro_sys::cpu;
use ferro_sys::cpu::preempt::PreemptOff;
use ferro_sys::cpu::CpuId;
use kernel::prelude::*;
use zerocopy::Immutable;
use zerocopy::IntoBytes;

use crate::channel::Channel;
use crate::channel_state::Inner;
use crate::raw::ring::Data;
use crate::raw::ring::Lost;
use crate::raw::ring::OpenRecord;

/// The record was not written: there is no room for it, or it does not fit in a sub-buffer. The loss has
/// been counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dropped;

impl From<Dropped> for Error {
    fn from(_: Dropped) -> Self {
        ENOSPC
    }
}

/// What becomes of a record that has been written in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Readers see it.
    Commit,
    /// Readers skip it.
    Discard,
}

impl Channel {
    /// Writes a record of type `kind` that is a plain structure, or bytes.
    #[inline(always)]
    pub fn write<T: IntoBytes + Immutable + ?Sized>(
        &self,
        kind: u16,
        data: &T,
    ) -> Result<(), Dropped> {
        self.write_bytes::<false>(kind, data.as_bytes())
    }

    /// Writes a record with the time, which is CLOCK_MONOTONIC's in nanoseconds.
    ///
    /// On a CPU, records are in the order of their times.
    #[inline(always)]
    pub fn write_timed<T: IntoBytes + Immutable + ?Sized>(
        &self,
        kind: u16,
        data: &T,
    ) -> Result<(), Dropped> {
        self.write_bytes::<true>(kind, data.as_bytes())
    }

    /// Makes room for a record with `len` bytes of data and has `fill` write it in place. Readers do not
    /// see it before `fill` has returned; what it leaves out is zero.
    ///
    /// `fill` runs with preemption off. It may write other records to the same channel, which come
    /// after this one. It must not sleep: readers do not see what the CPU writes meanwhile, which loses records once its
    /// buffer is full. If it does, the kernel says so where it counts preemption (CONFIG_PREEMPT_COUNT,
    /// CONFIG_DEBUG_ATOMIC_SLEEP); if it comes back on another CPU, that is reported once, and the CPU that the
    /// record is of is stopped to commit it.
    #[inline]
    pub fn reserve(
        &self,
        kind: u16,
        len: usize,
        fill: impl FnOnce(&mut Record<'_>) -> Outcome,
    ) -> Result<(), Dropped> {
        self.fill::<false>(kind, len, fill)
    }

    /// As [`Channel::reserve`], with the time.
    #[inline]
    pub fn reserve_timed(
        &self,
        kind: u16,
        len: usize,
        fill: impl FnOnce(&mut Record<'_>) -> Outcome,
    ) -> Result<(), Dropped> {
        self.fill::<true>(kind, len, fill)
    }

    /// Makes room for a record with the time and `len` bytes of data, which `fill` puts where it likes. What it leaves out is what was
    /// there before, of other records: it is for who fills all. Returns what `fill` has returned.
    ///
    /// `fill` runs as [`Channel::reserve`] says.
    #[inline(always)]
    pub fn place_timed(
        &self,
        kind: u16,
        len: usize,
        fill: impl FnOnce(&mut Placed<'_>) -> Outcome,
    ) -> Result<Outcome, Dropped> {
        let header = header::<true>(kind, len);
        let slots = &self.inner.slots;
        let mut open = match OpenRecord::reserve(slots, header) {
            Ok(open) => open,
            Err(preempt) => {
                let open = self.inner.reserve_slow(header, preempt)?;
                open.known(slots, header).ok_or(Dropped)?
            }
        };
        let outcome = fill(&mut Placed(open.data()));
        end(open, outcome);
        Ok(outcome)
    }

    #[inline(always)]
    fn write_bytes<const T: bool>(&self, kind: u16, data: &[u8]) -> Result<(), Dropped> {
        let header = header::<T>(kind, data.len());
        match OpenRecord::write(&self.inner.slots, header, data) {
            Ok(()) => Ok(()),
            Err(preempt) => self.inner.write_slow(header, data, preempt),
        }
    }

    #[inline]
    fn fill<const T: bool>(
        &self,
        kind: u16,
        len: usize,
        fill: impl FnOnce(&mut Record<'_>) -> Outcome,
    ) -> Result<(), Dropped> {
        let header = header::<T>(kind, len);
        let open = match OpenRecord::reserve(&self.inner.slots, header) {
            Ok(open) => open,
            Err(preempt) => self.inner.reserve_slow(header, preempt)?,
        };
        let mut record = Record { open, at: 0, len };
        let outcome = fill(&mut record);
        let Record { mut open, at, .. } = record;
        open.clear_from(at);
        end(open, outcome);
        Ok(())
    }
}

/// Ends a record that is written.
#[inline(always)]
fn end(mut open: OpenRecord<'_>, outcome: Outcome) {
    if outcome == Outcome::Discard {
        open.discard();
    }
    open.commit();
}

/// The header of a record with `len` bytes of data, and the time if `T`.
#[inline(always)]
fn header<const T: bool>(kind: u16, len: usize) -> Header {
    Header {
        // Not longer than can be counted: the engine refuses what is longer than a sub-buffer.
        len: u32::try_from(len).unwrap_or(u32::MAX),
        kind,
        flags: if T { TIMED } else { 0 },
    }
}

impl Inner {
    /// Reserves what the fast path did not: the first record of a sub-buffer, one that a reader is to be
    /// woken for, or one that is lost.
    #[cold]
    pub(crate) fn reserve_slow(
        &self,
        header: Header,
        preempt: PreemptOff,
    ) -> Result<OpenRecord<'_>, Dropped> {
        let here = CpuId::new(cpu::current_id());
        let (open, wake) = match OpenRecord::reserve_slow(&self.slots, header, preempt) {
            Ok((open, wake)) => (Ok(open), wake),
            Err(Lost::Refused(Refused::Full { wake })) => (Err(Dropped), wake),
            Err(Lost::Refused(_)) => return Err(Dropped),
            Err(Lost::NoBuffer) => {
                self.count_elsewhere();
                return Err(Dropped);
            }
        };
        if wake {
            if let Some(buffer) = here.and_then(|cpu| self.buffer(cpu)) {
                buffer.wake_readers();
            }
        }
        open
    }

    /// Writes what the fast path did not.
    #[cold]
    fn write_slow(&self, header: Header, data: &[u8], preempt: PreemptOff) -> Result<(), Dropped> {
        let mut open = self.reserve_slow(header, preempt)?;
        open.put(0, data);
        open.commit();
        Ok(())
    }
}

/// The data of a record, from the first byte to the last.
pub struct Record<'a> {
    open: OpenRecord<'a>,
    at: usize,
    len: usize,
}

impl Record<'_> {
    /// Bytes that are still free.
    pub fn left(&self) -> usize {
        self.len.saturating_sub(self.at)
    }

    /// Appends `bytes`; false, and nothing is written, if they do not fit.
    #[inline]
    pub fn put(&mut self, bytes: &[u8]) -> bool {
        let fits = bytes.len() <= self.left() && self.open.put(self.at, bytes);
        if fits {
            // No overflow: it fits.
            self.at += bytes.len();
        }
        fits
    }
}

/// The data of a record, of which bytes are put anywhere.
pub struct Placed<'a>(Data<'a>);

impl Placed<'_> {
    /// Puts `bytes` at `at` bytes from the start; false, and nothing is written, if they do not fit.
    #[inline(always)]
    pub fn put<const N: usize>(&mut self, at: usize, bytes: [u8; N]) -> bool {
        self.0.put(at, bytes)
    }
}
