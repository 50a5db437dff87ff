// SPDX-License-Identifier: GPL-2.0

//! How a channel is to be.
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

/// Describes a channel before it is opened.
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
    /// A per-CPU channel of 8 sub-buffers of 64 KiB that does not overwrite, with files `cpu0`,
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

    /// What the files are called, before the number of the CPU.
    pub fn base_name(self, base: &'a CStr) -> Self {
        Self { base, ..self }
    }

    /// Bytes in a sub-buffer. A record is never split, so it has to fit.
    pub fn subbuf_size(self, subbuf_size: usize) -> Self {
        Self {
            subbuf_size,
            ..self
        }
    }

    /// Sub-buffers of a CPU.
    pub fn n_subbufs(self, n_subbufs: usize) -> Self {
        Self { n_subbufs, ..self }
    }

    /// What happens when no sub-buffer is free.
    pub fn mode(self, mode: Mode) -> Self {
        Self { mode, ..self }
    }

    /// One buffer for all CPUs, in the order of writing. Writers then wait for each other.
    pub fn global(self) -> Self {
        Self {
            global: true,
            ..self
        }
    }

    /// Permission bits of the files; writing is never permitted.
    pub fn permissions(self, permissions: u16) -> Self {
        Self {
            permissions: permissions & 0o444,
            ..self
        }
    }

    /// The text of the file `format`, which describes the records as tracefs does.
    pub fn format(self, format: &'a str) -> Self {
        Self {
            format: Some(format),
            ..self
        }
    }

    /// Each sub-buffer begins with its padding, a native `size_t`, which is there when the
    /// sub-buffer is finished. So a reader of the mapping needs no file for it. It also makes the
    /// kernel's log say, once for each buffer, when it is full.
    pub fn padding_header(self) -> Self {
        Self {
            header: true,
            ..self
        }
    }

    /// The files of the buffers have a dot before their names until [`Channel::show`]. So another channel can have these
    /// names until then.
    pub(crate) fn hidden(self) -> Self {
        Self {
            hidden: true,
            ..self
        }
    }

    /// Opens the channel.
    ///
    /// Context: process; sleeps. [`ChannelError::Invalid`] stands for sizes of zero, of a header and nothing else, or of
    /// more than 4 GiB a CPU.
    #[track_caller]
    pub fn open(self) -> Result<Channel, ChannelError> {
        must_sleep()?;
        must_not_go(Location::caller())?;
        Ok(Channel::open(&self, self.geometry()?)?)
    }

    /// Opens the channel in a directory that is there already. Of the files, those of the buffers
    /// are made; the others are left to the owner of the directory.
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
