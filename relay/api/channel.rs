// SPDX-License-Identifier: GPL-2.0

//! Relay channels, the builder that opens them, and records written in place.
//!
//! Contexts: writing in any, including NMIs and probes on functions that writing calls; opening,
//! flushing, resetting and dropping in process context. Locks: writers of a global channel take its
//! spin lock, with interrupts off.
#![deny(unsafe_code)]

use core::panic::Location;

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

use crate::channel_state::ChannelState;
use crate::channel_state::Mode;
use crate::channel_state::Options;
use crate::channel_state::TextFiles;
use crate::error::must_sleep;
use crate::error::ChannelError;
use crate::raw::buf::Room;
use crate::raw::buf::HEADER;
use crate::raw::channel::ChannelCallbacks;
use crate::raw::channel::Handle;
use crate::raw::leaked_channels;
use crate::raw::leaked_channels::check_not_unloading;
use crate::raw::leaked_channels::Tracked;

/// A relay channel. Closed when dropped.
///
/// Open files and mappings keep their buffer. A channel that is leaked, as with `mem::forget()`,
/// stays open until this module is unloaded. In a context that cannot sleep, such as a probe
/// handler, the drop defers the close to a work item.
pub struct Channel(Tracked<OpenChannel>);

/// An open channel of the C interface, with its files.
struct OpenChannel {
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

impl leaked_channels::ClientObject for OpenChannel {}

/// Builder for a channel.
#[derive(Clone, Copy)]
pub struct Builder<'a> {
    dir: &'a CStr,
    base: &'a CStr,
    subbuf_size: usize,
    n_subbufs: usize,
    mode: Mode,
    global: bool,
    permissions: u16,
    format: Option<&'a str>,
    header: bool,
    hidden: bool,
}

impl<'a> Builder<'a> {
    /// Starts with a per-CPU channel of 8 sub-buffers of 64 KiB, no overwriting, and files `cpu0`,
    /// `cpu1`, ... in the debugfs directory `dir`, readable by root.
    fn new(dir: &'a CStr) -> Self {
        Self {
            dir,
            base: c"cpu",
            subbuf_size: 64 * 1024,
            n_subbufs: 8,
            mode: Mode::NoOverwrite,
            global: false,
            permissions: 0o400,
            format: None,
            header: false,
            hidden: false,
        }
    }

    /// Sets the base name of the files; the CPU number is appended to it.
    pub fn base_name(self, base: &'a CStr) -> Self {
        Self { base, ..self }
    }

    /// Sets the size of a sub-buffer in bytes. A record is never split, so it has to fit.
    pub fn subbuf_size(self, subbuf_size: usize) -> Self {
        Self {
            subbuf_size,
            ..self
        }
    }

    /// Sets the number of sub-buffers per CPU.
    pub fn n_subbufs(self, n_subbufs: usize) -> Self {
        Self { n_subbufs, ..self }
    }

    /// Sets the behaviour when no sub-buffer is free.
    pub fn mode(self, mode: Mode) -> Self {
        Self { mode, ..self }
    }

    /// Uses one buffer for all CPUs, with the records in the order of writing. Writers then wait
    /// for each other.
    pub fn global(self) -> Self {
        Self {
            global: true,
            ..self
        }
    }

    /// Sets the permission bits of the files; write permission is never given.
    pub fn permissions(self, permissions: u16) -> Self {
        Self {
            permissions: permissions & 0o444,
            ..self
        }
    }

    /// Sets the text of the file `format`, which describes the records in the way of tracefs.
    pub fn format(self, format: &'a str) -> Self {
        Self {
            format: Some(format),
            ..self
        }
    }

    /// Starts each sub-buffer with its padding, a native `size_t`, which is valid once the
    /// sub-buffer is finished. So a reader of the mapping needs no file for it. Also logs once for
    /// each buffer when it is full.
    pub fn padding_header(self) -> Self {
        Self {
            header: true,
            ..self
        }
    }

    /// Prefixes the file names of the buffers with a dot until [`Channel::show`], so that another
    /// channel can have these names until then.
    pub(crate) fn hidden(self) -> Self {
        Self {
            hidden: true,
            ..self
        }
    }

    /// Opens the channel.
    ///
    /// Context: process; sleeps. [`ChannelError::Invalid`] stands for sizes of zero, sub-buffers no
    /// larger than a header, or more than 4 GiB per CPU.
    #[track_caller]
    pub fn open(self) -> Result<Channel, ChannelError> {
        must_sleep()?;
        check_not_unloading(Location::caller())?;
        Ok(self.open_with_files()?)
    }

    fn open_with_files(&self) -> Result<Channel> {
        let geometry = self.geometry()?;
        let dir = Arc::new(Dir::new(self.dir)?, GFP_KERNEL)?;
        let mut open = self.open_channel(geometry, dir)?;
        open._files = Some(TextFiles::new(&open.dir, &open.state, self.format)?);
        Ok(Channel(Tracked::new(open)?))
    }

    /// Opens the channel in an existing directory. Makes only the files of the buffers; the other
    /// files are left to the owner of the directory.
    ///
    /// Context and errors: as for [`Builder::open`].
    #[track_caller]
    pub fn open_in(self, dir: Arc<Dir>) -> Result<Channel, ChannelError> {
        must_sleep()?;
        check_not_unloading(Location::caller())?;
        let open = self.open_channel(self.geometry()?, dir)?;
        Ok(Channel(Tracked::new(open)?))
    }

    /// Opens the channel, with the files of the buffers only.
    fn open_channel(&self, geometry: Geometry, dir: Arc<Dir>) -> Result<OpenChannel> {
        let options = Options {
            mode: self.mode,
            global: self.global,
            permissions: self.permissions,
            header_of: self.header.then_some(self.dir),
            hidden: self.hidden,
        };
        let state = ChannelState::new(&options, geometry)?;
        let sizes = (geometry.subbuf_size(), geometry.n_subbufs());
        let handle = Handle::open(dir.clone(), self.base, sizes, state.clone())?;
        Ok(OpenChannel {
            _files: None,
            handle,
            dir,
            state,
        })
    }

    fn geometry(&self) -> Result<Geometry> {
        if self.header && self.subbuf_size <= HEADER {
            return Err(EINVAL);
        }
        Geometry::new(self.subbuf_size, self.n_subbufs).map_err(|_| EINVAL)
    }
}

impl Channel {
    /// Starts a builder for a channel with files in the debugfs directory `dir`.
    pub fn builder(dir: &CStr) -> Builder<'_> {
        Builder::new(dir)
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
    /// Context: any. A write that interrupts another write to the same channel on its CPU is
    /// dropped. While another CPU writes to a global channel, a write to it is dropped in an NMI
    /// and within a write to any global channel.
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
            // A kernel lock that `fill` drops may turn interrupts on. This guard keeps the task on
            // its CPU even then.
            let _preempt = PreemptOff::new();
            let Some(_writing) = self.0.handle.enter(irqs) else {
                return false;
            };
            let Some(_lock) = self.0.state.lock_global(irqs) else {
                return false;
            };
            self.0.state.fits_after_header(len)
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

/// Bytes of a record, filled from the first to the last.
pub struct Record<'a> {
    room: &'a mut Room,
    at: usize,
}

impl<'a> Record<'a> {
    fn new(room: &'a mut Room) -> Self {
        Self { room, at: 0 }
    }

    /// Returns the number of free bytes.
    pub fn left(&self) -> usize {
        self.room.len().saturating_sub(self.at)
    }

    /// Appends `bytes`. Returns false and writes nothing if they do not fit.
    #[inline]
    pub fn put(&mut self, bytes: &[u8]) -> bool {
        let fits = self.room.put(self.at, bytes);
        if fits {
            // Cannot overflow: the bytes fit.
            self.at += bytes.len();
        }
        fits
    }

    /// Returns the number of bytes written.
    fn len(&self) -> usize {
        self.at
    }
}
