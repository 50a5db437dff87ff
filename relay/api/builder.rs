// SPDX-License-Identifier: GPL-2.0

//! Builder for relay channels.
#![deny(unsafe_code)]

use core::panic::Location;

use ferro_core::relay::Geometry;
use ferro_sys::fs::debugfs::Dir;
use kernel::prelude::*;
use kernel::sync::Arc;

use crate::channel::Channel;
use crate::error::must_sleep;
use crate::error::ChannelError;
use crate::mode::Mode;
use crate::raw::buf::HEADER;
use crate::raw::leaked_channels::must_not_go;

/// Builder for a channel.
#[derive(Clone, Copy)]
pub struct Builder<'a> {
    pub(crate) dir: &'a CStr,
    pub(crate) base: &'a CStr,
    pub(crate) subbuf_size: usize,
    pub(crate) n_subbufs: usize,
    pub(crate) mode: Mode,
    pub(crate) global: bool,
    pub(crate) permissions: u16,
    pub(crate) format: Option<&'a str>,
    pub(crate) header: bool,
    pub(crate) hidden: bool,
}

impl<'a> Builder<'a> {
    /// Starts with a per-CPU channel of 8 sub-buffers of 64 KiB, no overwriting, and files `cpu0`,
    /// `cpu1`, ... in the debugfs directory `dir`, readable by root.
    pub(crate) fn new(dir: &'a CStr) -> Self {
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

    /// Uses one buffer for all CPUs, in the order of writing. Writers then wait for each other.
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
        must_not_go(Location::caller())?;
        Ok(Channel::open(&self, self.geometry()?)?)
    }

    /// Opens the channel in an existing directory. Makes only the files of the buffers; the other
    /// files are left to the owner of the directory.
    ///
    /// Context and errors: as for [`Builder::open`].
    #[track_caller]
    pub fn open_in(self, dir: Arc<Dir>) -> Result<Channel, ChannelError> {
        must_sleep()?;
        must_not_go(Location::caller())?;
        Ok(Channel::open_in(&self, self.geometry()?, dir)?)
    }

    fn geometry(&self) -> Result<Geometry> {
        if self.header && self.subbuf_size <= HEADER {
            return Err(EINVAL);
        }
        Geometry::new(self.subbuf_size, self.n_subbufs).map_err(|_| EINVAL)
    }
}
