// SPDX-License-Identifier: GPL-2.0

//! Client's handle of an open channel.
//!
//! Contexts: process, except where stated.
#![deny(unsafe_code)]

use core::panic::Location;

use ferro_core::ring::Ring;
use ferro_sys::fs::debugfs::DirRef;
use ferro_sys::sync::deferred_drop::Deferred;
use ferro_sys::sync::refcounted::Shared;
use kernel::prelude::*;
use kernel::sync::aref::ARef;

use crate::builder::Builder;
use crate::channel_state::Inner;
use crate::error::must_sleep;
use crate::error::ChannelError;
use crate::files::Files;
use crate::persistent::Seat;
use crate::registry;

/// A fast relay channel. Closed when dropped.
///
/// Open files and mappings keep their buffer. A channel that is leaked, as with `mem::forget()`, is
/// closed when the module that opened it is unloaded. In a context that cannot sleep, such as a
/// probe handler, the drop defers the close to a work item.
pub struct Channel {
    pub(crate) inner: ARef<Shared<Inner>>,
    // Dropped last: it holds a reference to the other.
    _open: Deferred<Open>,
}

/// Closes a channel when dropped. Sleeps.
struct Open(ARef<Shared<Inner>>);

impl Drop for Open {
    fn drop(&mut self) {
        // The registry has it, unless opening failed, or the module that opened it was unloaded
        // after it passed the handle to another module.
        let _ = registry::close(&raw const **self.0);
    }
}

impl Channel {
    /// Starts a builder for a channel with files in the debugfs directory `dir`.
    pub fn builder(dir: &CStr) -> Builder<'_> {
        Builder::new(dir)
    }

    pub(crate) fn open(
        ring: Ring,
        seat: Option<Seat>,
        files: Files,
        client: &'static Location<'static>,
    ) -> Result<Self> {
        // The location is data of the module that calls `Builder::open()`.
        let inner = Inner::new(ring, seat, files, core::ptr::from_ref(client).addr())?;
        // First, as it cannot fail once the channel is open.
        let open = Deferred::new(Ok::<_, Error>(Open(inner.clone())))?;
        registry::open(&inner)?;
        Ok(Self { inner, _open: open })
    }

    /// Returns the directory with the channel's files, for the client's own files.
    ///
    /// Context: process; sleeps. Errors: `ENOENT` before debugfs is ready.
    pub fn dir(&self) -> Result<DirRef, ChannelError> {
        must_sleep()?;
        Ok(self.inner.dir()?)
    }

    /// Returns the number of lost records, of all CPUs. Context: any.
    pub fn lost(&self) -> u64 {
        self.inner.lost()
    }
}
