// SPDX-License-Identifier: GPL-2.0

//! An open channel, as its client has it.
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

/// A fast relay channel, closed when it is dropped.
///
/// User space that has a file or a mapping open keeps its buffer. A channel that is forgotten, as with `mem::forget()`,
/// is closed when the module that has opened it goes. Where nothing may sleep, as in a handler of a probe, dropping it
/// leaves that to a work item.
pub struct Channel {
    pub(crate) inner: ARef<Shared<Inner>>,
    // Dropped last: it has a count of the other.
    _open: Deferred<Open>,
}

/// Closes a channel when it is dropped. Sleeps.
struct Open(ARef<Shared<Inner>>);

impl Drop for Open {
    fn drop(&mut self) {
        // The registry has it, unless it could not be opened, or the module that opened it has gone and left it to
        // another.
        let _ = registry::close(&raw const **self.0);
    }
}

impl Channel {
    /// Describes a channel with files in the debugfs directory `dir`.
    pub fn builder(dir: &CStr) -> Builder<'_> {
        Builder::new(dir)
    }

    pub(crate) fn open(
        ring: Ring,
        seat: Option<Seat>,
        files: Files,
        client: &'static Location<'static>,
    ) -> Result<Self> {
        // It is data of the module that calls `Builder::open()`.
        let inner = Inner::new(ring, seat, files, core::ptr::from_ref(client).addr())?;
        // First, as it cannot fail once the channel is open.
        let open = Deferred::new(Ok::<_, Error>(Open(inner.clone())))?;
        registry::open(&inner)?;
        Ok(Self { inner, _open: open })
    }

    /// The directory with the channel's files, for files of the client's own.
    ///
    /// Context: process; sleeps. Errors: `ENOENT` while there is no debugfs yet.
    pub fn dir(&self) -> Result<DirRef, ChannelError> {
        must_sleep()?;
        Ok(self.inner.dir()?)
    }

    /// Records that could not be written, of all CPUs. Context: any.
    pub fn lost(&self) -> u64 {
        self.inner.lost()
    }
}
