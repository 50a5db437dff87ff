// SPDX-License-Identifier: GPL-2.0

//! Writing records.
//!
//! Contexts: any, NMI included. No locks.
#![deny(unsafe_code)]

use ferro_core::ring::Header;
use ferro_core::ring::Refused;
use ferro_core::ring::TIMED;
use ferro_sys::cpu;
use ferro_sys::cpu::CpuId;
use ferro_sys::preempt::PreemptOff;
use ferro_sys::ring::Nesting;
use ferro_sys::ring::OpenRecord;
use ferro_sys::time::mono_fast_ns;
use kernel::prelude::*;
use zerocopy::Immutable;
use zerocopy::IntoBytes;

use crate::channel::Channel;
use crate::channel::Inner;

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
    /// after this one.
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

    #[inline(always)]
    fn write_bytes<const T: bool>(&self, kind: u16, data: &[u8]) -> Result<(), Dropped> {
        let (mut open, at) = self.begin::<T>(kind, data.len(), Nesting::Leaf)?;
        open.put(at, data);
        open.commit();
        Ok(())
    }

    #[inline]
    fn fill<const T: bool>(
        &self,
        kind: u16,
        len: usize,
        fill: impl FnOnce(&mut Record<'_>) -> Outcome,
    ) -> Result<(), Dropped> {
        let (open, start) = self.begin::<T>(kind, len, Nesting::Open)?;
        let mut record = Record {
            open,
            at: start,
            // No overflow: the record is as long.
            end: start + len,
        };
        let outcome = fill(&mut record);
        let Record { mut open, at, .. } = record;
        open.clear_from(at);
        if outcome == Outcome::Discard {
            open.discard();
        }
        open.commit();
        Ok(())
    }

    /// Opens a record and writes its header; tells where its data starts.
    #[inline(always)]
    fn begin<const T: bool>(
        &self,
        kind: u16,
        len: usize,
        nesting: Nesting,
    ) -> Result<(OpenRecord<'_>, usize), Dropped> {
        // Not longer than can be counted: the engine refuses what is longer than a sub-buffer.
        let header = Header {
            len: u32::try_from(len).unwrap_or(u32::MAX),
            kind,
            flags: if T { TIMED } else { 0 },
        };
        let stamp = || if T { mono_fast_ns() } else { 0 };
        let (mut open, time) = match OpenRecord::reserve(&self.inner.slots, header, nesting, stamp)
        {
            Ok(reserved) => reserved,
            Err(preempt) => self.inner.reserve_slow(header, preempt)?,
        };
        let at = open.start(time);
        Ok((open, at))
    }
}

impl Inner {
    /// Reserves what the fast path did not: the first record of a sub-buffer, one that a reader is to be
    /// woken for, or one that is lost. The time is 0 if it is not asked for.
    #[cold]
    pub(crate) fn reserve_slow(
        &self,
        header: Header,
        preempt: PreemptOff,
    ) -> Result<(OpenRecord<'_>, u64), Dropped> {
        let Some(buffer) = CpuId::new(cpu::current_id()).and_then(|cpu| self.buffer(cpu)) else {
            self.count_elsewhere();
            return Err(Dropped);
        };
        let timed = header.flags & TIMED != 0;
        let stamp = || if timed { mono_fast_ns() } else { 0 };
        match OpenRecord::reserve_slow(buffer.memory(), header, preempt, stamp) {
            Ok((open, grant, time)) => {
                buffer.granted(&grant);
                Ok((open, time))
            }
            Err(refused) => {
                if refused == Refused::Full {
                    buffer.refused();
                }
                Err(Dropped)
            }
        }
    }
}

/// The data of a record, from the first byte to the last.
pub struct Record<'a> {
    open: OpenRecord<'a>,
    at: usize,
    end: usize,
}

impl Record<'_> {
    /// Bytes that are still free.
    pub fn left(&self) -> usize {
        self.end.saturating_sub(self.at)
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
