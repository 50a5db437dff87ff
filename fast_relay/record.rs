// SPDX-License-Identifier: GPL-2.0

//! Writing records.
//!
//! Contexts: any, NMI included. No locks.
#![deny(unsafe_code)]

use ferro_fast_relay_core::ring::Header;
use ferro_fast_relay_core::ring::Refused;
use ferro_fast_relay_core::ring::TIMED;
use ferro_sys::cpu;
use ferro_sys::cpu::preempt::PreemptOff;
use ferro_sys::cpu::CpuId;
use kernel::prelude::*;
use zerocopy::Immutable;
use zerocopy::IntoBytes;

use crate::channel::Channel;
use crate::channel_state::ChannelState;
use crate::raw::ring::Data;
use crate::raw::ring::Lost;
use crate::raw::ring::OpenRecord;

/// Error: the record was lost and counted. There was no room for it, or it does not fit in a
/// sub-buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dropped;

impl From<Dropped> for Error {
    fn from(_: Dropped) -> Self {
        ENOSPC
    }
}

/// Fate of a record that has been written in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Readers see it.
    Commit,
    /// Readers skip it.
    Discard,
}

impl Channel {
    /// Writes a record of type `kind`; its data are a plain structure or bytes.
    #[inline(always)]
    pub fn write<T: IntoBytes + Immutable + ?Sized>(
        &self,
        kind: u16,
        data: &T,
    ) -> Result<(), Dropped> {
        self.write_bytes::<false>(kind, data.as_bytes())
    }

    /// Writes a record with the time, CLOCK_MONOTONIC in nanoseconds.
    ///
    /// On each CPU, records are in the order of their times.
    #[inline(always)]
    pub fn write_timed<T: IntoBytes + Immutable + ?Sized>(
        &self,
        kind: u16,
        data: &T,
    ) -> Result<(), Dropped> {
        self.write_bytes::<true>(kind, data.as_bytes())
    }

    /// Reserves a record with `len` bytes of data and calls `fill` to write it in place. Readers do
    /// not see it before `fill` has returned; bytes that `fill` leaves out are zero.
    ///
    /// `fill` runs with preemption off. It may write other records to the same channel, which
    /// follow this one. It must not sleep: until it returns, readers do not see later records of
    /// the CPU, and records are lost once the buffer is full. With CONFIG_PREEMPT_COUNT and
    /// CONFIG_DEBUG_ATOMIC_SLEEP the kernel reports the sleep. If the task then runs on another
    /// CPU, that is reported once, and a thread of the record's CPU commits the record.
    #[inline]
    pub fn reserve(
        &self,
        kind: u16,
        len: usize,
        fill: impl FnOnce(&mut Record<'_>) -> Outcome,
    ) -> Result<(), Dropped> {
        self.fill::<false>(kind, len, fill)
    }

    /// Reserves a record as [`Channel::reserve`] does, with the time.
    #[inline]
    pub fn reserve_timed(
        &self,
        kind: u16,
        len: usize,
        fill: impl FnOnce(&mut Record<'_>) -> Outcome,
    ) -> Result<(), Dropped> {
        self.fill::<true>(kind, len, fill)
    }

    /// Reserves a record with the time and `len` bytes of data, which `fill` writes at any offsets.
    /// Bytes that `fill` leaves out keep the content of older records, so it should write all of
    /// them. Returns the result of `fill`.
    ///
    /// `fill` runs as in [`Channel::reserve`].
    #[inline(always)]
    pub fn place_timed(
        &self,
        kind: u16,
        len: usize,
        fill: impl FnOnce(&mut Placed<'_>) -> Outcome,
    ) -> Result<Outcome, Dropped> {
        let header = header::<true>(kind, len);
        let slots = &self.state.slots;
        let mut open = match OpenRecord::reserve(slots, header) {
            Ok(open) => open,
            Err(preempt) => {
                let open = self.state.reserve_slow(header, preempt)?;
                open.with_known_fields(slots, header).ok_or(Dropped)?
            }
        };
        let outcome = fill(&mut Placed(open.data()));
        end(open, outcome);
        Ok(outcome)
    }

    #[inline(always)]
    fn write_bytes<const T: bool>(&self, kind: u16, data: &[u8]) -> Result<(), Dropped> {
        let header = header::<T>(kind, data.len());
        match OpenRecord::write(&self.state.slots, header, data) {
            Ok(()) => Ok(()),
            Err(preempt) => self.state.write_slow(header, data, preempt),
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
        let open = match OpenRecord::reserve(&self.state.slots, header) {
            Ok(open) => open,
            Err(preempt) => self.state.reserve_slow(header, preempt)?,
        };
        let mut record = Record { open, at: 0, len };
        let outcome = fill(&mut record);
        let Record { mut open, at, .. } = record;
        open.clear_from(at);
        end(open, outcome);
        Ok(())
    }
}

/// Commits or discards a written record.
#[inline(always)]
fn end(mut open: OpenRecord<'_>, outcome: Outcome) {
    if outcome == Outcome::Discard {
        open.discard();
    }
    open.commit();
}

/// Returns the header of a record with `len` bytes of data, and the time if `T`.
#[inline(always)]
fn header<const T: bool>(kind: u16, len: usize) -> Header {
    Header {
        // Capped: the engine refuses records longer than a sub-buffer.
        len: u32::try_from(len).unwrap_or(u32::MAX),
        kind,
        flags: if T { TIMED } else { 0 },
    }
}

impl ChannelState {
    /// Reserves a record that the fast path could not: the first record of a sub-buffer, or one
    /// that wakes a reader, or one that is lost.
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
                self.count_without_buffer();
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

    /// Writes a record that the fast path could not.
    #[cold]
    fn write_slow(&self, header: Header, data: &[u8], preempt: PreemptOff) -> Result<(), Dropped> {
        let mut open = self.reserve_slow(header, preempt)?;
        open.put(0, data);
        open.commit();
        Ok(())
    }
}

/// Data of a record, filled from the first byte to the last.
pub struct Record<'a> {
    open: OpenRecord<'a>,
    at: usize,
    len: usize,
}

impl Record<'_> {
    /// Returns the number of free bytes.
    pub fn left(&self) -> usize {
        self.len.saturating_sub(self.at)
    }

    /// Appends `bytes`. Returns false and writes nothing if they do not fit.
    #[inline]
    pub fn put(&mut self, bytes: &[u8]) -> bool {
        let fits = bytes.len() <= self.left() && self.open.put(self.at, bytes);
        if fits {
            // Cannot overflow: the bytes fit.
            self.at += bytes.len();
        }
        fits
    }
}

/// Data of a record, filled at any offsets.
pub struct Placed<'a>(Data<'a>);

impl Placed<'_> {
    /// Puts `bytes` at offset `at`. Returns false and writes nothing if they do not fit.
    #[inline(always)]
    pub fn put<const N: usize>(&mut self, at: usize, bytes: [u8; N]) -> bool {
        self.0.put(at, bytes)
    }
}
