// SPDX-License-Identifier: GPL-2.0

//! Client's handle of an open channel, and the builder that opens it.
//!
//! Contexts: process, except where stated.
#![deny(unsafe_code)]

use core::panic::Location;

use ferro_sys::fs::debugfs::DirRef;
use ferro_sys::sync::deferred_drop::Deferred;
use ferro_sys::sync::refcounted::Shared;
use kernel::prelude::*;
use kernel::str::CString;
use kernel::sync::aref::ARef;

use crate::channel_state::ChannelState;
use crate::debugfs::Files;
use crate::debugfs::Parent;
use crate::error::must_sleep;
use crate::error::ChannelError;
use crate::persistent;
use crate::registry;

/// A fast relay channel. Closed when dropped.
///
/// Open files and mappings keep their buffer. A channel that is leaked, as with `mem::forget()`, is
/// closed when the module that opened it is unloaded. In a context that cannot sleep, such as a
/// probe handler, the drop defers the close to a work item.
pub struct Channel {
    pub(crate) state: ARef<Shared<ChannelState>>,
    // Dropped after `state`: the last reference is then dropped where sleeping is allowed.
    _open: Deferred<Open>,
}

/// Closes a channel when dropped. Sleeps.
struct Open(ARef<Shared<ChannelState>>);

impl Drop for Open {
    fn drop(&mut self) {
        // Fails if opening failed, or if the module that opened the channel has passed this handle
        // to another module and was unloaded since.
        let _ = registry::close(&raw const **self.0);
    }
}

/// Behaviour of a channel when no sub-buffer is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Loses new records until a reader has consumed a sub-buffer.
    NoOverwrite,
    /// Overwrites the oldest sub-buffer: a flight recorder.
    Overwrite,
}

/// Builder for a channel.
#[derive(Clone, Copy)]
pub struct Builder<'a> {
    dir: &'a CStr,
    base: &'a CStr,
    subbuf_size: usize,
    n_subbufs: usize,
    mode: Mode,
    permissions: u16,
    format: Option<&'a str>,
    reserved: Option<&'a CStr>,
}

impl<'a> Builder<'a> {
    /// Starts with 8 sub-buffers of 64 KiB per CPU, no overwriting, and files `cpu0`, `cpu1`, ...
    /// in the debugfs directory `dir`, for root.
    fn new(dir: &'a CStr) -> Self {
        Self {
            dir,
            base: c"cpu",
            subbuf_size: 64 * 1024,
            n_subbufs: 8,
            mode: Mode::NoOverwrite,
            permissions: 0o600,
            format: None,
            reserved: None,
        }
    }

    /// Sets the base name of the files; the CPU number is appended to it.
    pub fn base_name(self, base: &'a CStr) -> Self {
        Self { base, ..self }
    }

    /// Sets the size of a sub-buffer in bytes, a power of two of at least 64. A record is never
    /// split, so it must fit with its header of 8 bytes.
    pub fn subbuf_size(self, subbuf_size: usize) -> Self {
        Self {
            subbuf_size,
            ..self
        }
    }

    /// Sets the number of sub-buffers per CPU, a power of two of at least 2.
    pub fn n_subbufs(self, n_subbufs: usize) -> Self {
        Self { n_subbufs, ..self }
    }

    /// Sets the behaviour when no sub-buffer is free.
    pub fn mode(self, mode: Mode) -> Self {
        Self { mode, ..self }
    }

    /// Sets the permission bits of the files. A reader that maps a buffer must be able to write the
    /// reader's page.
    pub fn permissions(self, permissions: u16) -> Self {
        Self {
            permissions: permissions & 0o666,
            ..self
        }
    }

    /// Sets the text of the file `format`, which describes the records by type, in the way of
    /// tracefs.
    pub fn format(self, format: &'a str) -> Self {
        Self {
            format: Some(format),
            ..self
        }
    }

    /// Puts the buffers into memory that survives a reboot: the memory that the kernel's command
    /// line reserves under this name (`reserve_mem=8M:4096:NAME`). The channel gets as many
    /// sub-buffers as fit, unless [`Builder::n_subbufs`] is called after this.
    ///
    /// The data of the last boot stay there, to be read with `ferrotrace recover NAME`.
    pub fn reserved(self, name: &'a CStr) -> Self {
        Self {
            reserved: Some(name),
            n_subbufs: 0,
            ..self
        }
    }

    /// Opens the channel.
    ///
    /// During boot this works from early initcalls on; the files are made once debugfs is ready.
    ///
    /// Context: process; sleeps. [`ChannelError::Invalid`] also stands for names that are empty,
    /// have a slash or are not UTF-8. With [`Builder::reserved`] also `ENXIO` if there is no such
    /// memory, `EAGAIN` while another channel or readers of an earlier one use it, `ENOSPC` if it
    /// is too small.
    #[track_caller]
    pub fn open(self) -> Result<Channel, ChannelError> {
        must_sleep()?;
        Ok(self.open_for(Location::caller())?)
    }

    fn open_for(self, client: &'static Location<'static>) -> Result<Channel> {
        let overwrite = self.mode == Mode::Overwrite;
        let text = |name: &'a CStr| name.to_str().map_err(|_| EINVAL);
        let files = Files::new(
            Parent::to_make(text(self.dir)?)?,
            text(self.base)?,
            self.permissions,
            self.format
                .map(|format| CString::try_from_fmt(fmt!("{format}")))
                .transpose()?,
        )?;
        let (ring, claim) = persistent::allocate(
            self.reserved,
            self.dir,
            self.subbuf_size,
            self.n_subbufs,
            overwrite,
            self.format.unwrap_or_default().as_bytes(),
        )?;
        // The location is data of the module that calls `Builder::open()`.
        let state = ChannelState::new(ring, claim, files, core::ptr::from_ref(client).addr())?;
        // First, as it cannot fail once the channel is open.
        let open = Deferred::new(Ok::<_, Error>(Open(state.clone())))?;
        registry::open(&state)?;
        Ok(Channel { state, _open: open })
    }
}

impl Channel {
    /// Starts a builder for a channel with files in the debugfs directory `dir`.
    pub fn builder(dir: &CStr) -> Builder<'_> {
        Builder::new(dir)
    }

    /// Returns the directory with the channel's files, for the client's own files.
    ///
    /// Context: process; sleeps. Errors: `ENOENT` before debugfs is ready.
    pub fn dir(&self) -> Result<DirRef, ChannelError> {
        must_sleep()?;
        Ok(self.state.dir()?)
    }

    /// Returns the number of lost records, of all CPUs. Context: any.
    pub fn lost(&self) -> u64 {
        self.state.lost()
    }
}
