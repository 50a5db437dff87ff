// SPDX-License-Identifier: GPL-2.0

//! Open relay channels.
//!
//! Contexts: writing in any, including NMIs and probes on functions that writing calls; opening,
//! flushing, resetting and dropping in process context. Locks: writers of a global channel take its
//! spin lock, with interrupts off.
#![deny(unsafe_code)]

use ferro_core::relay::Geometry;
use ferro_sys::cpu::preempt::PreemptOff;
use ferro_sys::cpu::with_irqs_off;
use ferro_sys::cpu::CpuId;
use ferro_sys::fs::debugfs::Dir;
use ferro_sys::sync::refcounted::Shared;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::Arc;
use zerocopy::Immutable;
use zerocopy::IntoBytes;

use crate::builder::Builder;
use crate::control_files::ChannelState;
use crate::control_files::Options;
use crate::control_files::TextFiles;
use crate::error::must_sleep;
use crate::error::ChannelError;
use crate::raw::buf::Room;
use crate::raw::channel::Handle;
use crate::raw::leaked_channels;
use crate::raw::leaked_channels::Kept;
use crate::record::Record;

/// A relay channel. Closed when dropped.
///
/// Open files and mappings keep their buffer. A channel that is leaked, as with `mem::forget()`,
/// stays open until this module is unloaded. In a context that cannot sleep, such as a probe
/// handler, the drop defers the close to a work item.
pub struct Channel(Kept<Parts>);

/// Parts of a channel.
struct Parts {
    // In drop order.
    _files: Option<TextFiles>,
    handle: Handle<ChannelState>,
    dir: Arc<Dir>,
    state: ARef<Shared<ChannelState>>,
}

/// Error: the record was lost and counted. No sub-buffer is free, the record does not fit in one,
/// or it was written within another write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dropped;

impl From<Dropped> for Error {
    fn from(_: Dropped) -> Self {
        ENOSPC
    }
}

/// Counters since the channel was opened or reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stats {
    /// Records that were not written.
    pub dropped: u64,
    /// Number of times that a sub-buffer was needed and none was free.
    pub full: usize,
    /// Records that did not fit in a sub-buffer.
    pub too_big: usize,
}

impl leaked_channels::Parts for Parts {}

impl Parts {
    /// Opens the channel, with the files of the buffers only.
    fn open(builder: &Builder<'_>, geometry: Geometry, dir: Arc<Dir>) -> Result<Self> {
        let options = Options {
            mode: builder.mode,
            global: builder.global,
            permissions: builder.permissions,
            header_of: builder.header.then_some(builder.dir),
            hidden: builder.hidden,
        };
        let state = ChannelState::new(&options, geometry)?;
        let sizes = (geometry.subbuf_size(), geometry.n_subbufs());
        let handle = Handle::open(dir.clone(), builder.base, sizes, state.clone())?;
        Ok(Self {
            _files: None,
            handle,
            dir,
            state,
        })
    }
}

impl Channel {
    /// Starts a builder for a channel with files in the debugfs directory `dir`.
    pub fn builder(dir: &CStr) -> Builder<'_> {
        Builder::new(dir)
    }

    pub(crate) fn open(builder: &Builder<'_>, geometry: Geometry) -> Result<Self> {
        let dir = Arc::new(Dir::new(builder.dir)?, GFP_KERNEL)?;
        let mut parts = Parts::open(builder, geometry, dir)?;
        parts._files = Some(TextFiles::new(&parts.dir, &parts.state, builder.format)?);
        Ok(Self(Kept::new(parts)?))
    }

    pub(crate) fn open_in(
        builder: &Builder<'_>,
        geometry: Geometry,
        dir: Arc<Dir>,
    ) -> Result<Self> {
        Ok(Self(Kept::new(Parts::open(builder, geometry, dir)?)?))
    }

    /// Renames the buffers' files to their final names, if the channel was opened as
    /// [`Builder::hidden`].
    ///
    /// Context: process; sleeps. Errors: -EEXIST, -ENOMEM.
    pub(crate) fn show(&self) -> Result {
        self.0.state.show()
    }

    /// Returns the directory with the channel's files, for the client's own files.
    pub fn dir(&self) -> &Dir {
        &self.0.dir
    }

    /// Writes a record to the buffer of this CPU.
    ///
    /// Context: any. A write that interrupts another one to the same channel on its CPU is dropped.
    /// A write to a global channel that another CPU is writing is dropped in an NMI and within a
    /// write to a global channel.
    #[inline]
    pub fn write(&self, data: &[u8]) -> Result<(), Dropped> {
        if !self.0.state.is_global() && with_irqs_off(|irqs| self.0.handle.append(data, irqs)) {
            return Ok(());
        }
        self.write_slow(data)
    }

    /// Writes a record that needs a new sub-buffer, or the lock of a global channel.
    #[cold]
    fn write_slow(&self, data: &[u8]) -> Result<(), Dropped> {
        self.with_room(data.len(), |room| {
            room.put(0, data);
            data.len()
        })
    }

    /// Writes a record that is a plain structure.
    #[inline]
    pub fn write_record<T: IntoBytes + Immutable>(&self, record: &T) -> Result<(), Dropped> {
        self.write(record.as_bytes())
    }

    /// Reserves a record of `len` bytes and calls `fill` to write it in place. Readers do not see
    /// it before `fill` has returned; bytes that `fill` leaves out are zero.
    ///
    /// `fill` runs with interrupts off. Its own writes to the same channel are dropped.
    ///
    /// Context: as for [`Channel::write`].
    #[inline]
    pub fn reserve(&self, len: usize, fill: impl FnOnce(&mut Record<'_>)) -> Result<(), Dropped> {
        self.with_room(len, |room| {
            let mut record = Record::new(room);
            fill(&mut record);
            record.len()
        })
    }

    #[inline]
    fn with_room(&self, len: usize, fill: impl FnOnce(&mut Room) -> usize) -> Result<(), Dropped> {
        let written = with_irqs_off(|irqs| {
            // A kernel lock that is dropped in `fill` may turn interrupts on; this guard still
            // counts.
            let _here = PreemptOff::new();
            let Some(_writing) = self.0.handle.enter(irqs) else {
                return false;
            };
            let Some(_lock) = self.0.state.lock_global(irqs) else {
                return false;
            };
            self.0.state.holds(len)
                && self
                    .0
                    .handle
                    .this_buf(irqs)
                    .is_some_and(|buf| buf.write_room(len, irqs, fill))
        });
        if !written {
            self.0.state.count_dropped();
            return Err(Dropped);
        }
        Ok(())
    }

    /// Ends the current sub-buffer of each CPU and wakes readers.
    ///
    /// Context: process; sleeps. A global channel: any. Errors: [`ChannelError::MustNotSleep`].
    pub fn flush(&self) -> Result<(), ChannelError> {
        if self.0.state.is_global() {
            with_irqs_off(|irqs| {
                // Fails within a write to the channel: then there is nothing to flush.
                if let Some(_lock) = self.0.state.lock_global(irqs) {
                    self.0.handle.flush();
                }
            });
        } else {
            must_sleep()?;
            self.0.handle.flush();
        }
        Ok(())
    }

    /// Empties all buffers and sets the counters to zero.
    ///
    /// Context: process; sleeps. Errors: [`ChannelError::MustNotSleep`].
    pub fn reset(&mut self) -> Result<(), ChannelError> {
        must_sleep()?;
        self.0.handle.reset();
        self.0.state.reset_dropped();
        Ok(())
    }

    /// Returns the counters of lost records.
    pub fn stats(&self) -> Stats {
        let (full, too_big) = self.0.handle.stats();
        Stats {
            dropped: self.0.state.dropped(),
            full,
            too_big: too_big.saturating_add(self.0.state.too_big()),
        }
    }

    /// Returns the bytes in the current sub-buffer of `cpu`. Valid only while there is no writer.
    #[cfg(CONFIG_RELAY_RUST_API_KUNIT_TEST)]
    pub(crate) fn written(&self, cpu: CpuId) -> Result<KVec<u8>> {
        self.0
            .handle
            .buf(cpu)
            .map_or(Ok(KVec::new()), |buf| buf.written())
    }

    /// Returns the numbers of completed and of consumed sub-buffers of `cpu`. Returns `None` if the
    /// CPU has not been online since the channel was opened.
    pub fn subbufs(&self, cpu: CpuId) -> Option<(usize, usize)> {
        let buf = self.0.handle.buf(cpu)?;
        Some((buf.produced(), buf.consumed()))
    }
}
