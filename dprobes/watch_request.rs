// SPDX-License-Identifier: GPL-2.0

//! Requests for watchpoints with an address that a program supplies. A hit, which cannot sleep,
//! stores the address; a work item arms the watchpoint.
//!
//! Contexts: requesting any, NMI included; the rest process, with the registry's mutex.
#![deny(unsafe_code)]

use ferro_dprobes_core::ProgramRef;
use ferro_sys::sync::shared_word::Word;
use kernel::prelude::*;

use crate::raw::worker;

/// Request for a watchpoint.
pub(crate) struct WatchRequest {
    minor: u32,
    /// Address requested last; 0 for none. Stored before `is_pending`.
    wanted: Word,
    /// Watched address; 0 for none.
    watched: Word,
    /// 1 if the last request has not been handled yet.
    is_pending: Word,
    /// 1 if the point never watches again.
    is_closed: Word,
}

/// Requests for the points of a program that were loaded together.
pub(crate) struct WatchRequests(KVVec<WatchRequest>);

impl WatchRequests {
    /// Makes a request for each point without an initial address. Errors: -ENOMEM.
    pub(crate) fn new(program: &ProgramRef<'_>) -> Result<Self> {
        let mut all = KVVec::new();
        for point in program.points().filter(|point| point.point.is_later) {
            let request = WatchRequest {
                minor: point.point.minor,
                wanted: Word::new(0),
                watched: Word::new(0),
                is_pending: Word::new(0),
                is_closed: Word::new(0),
            };
            all.push(request, GFP_KERNEL)?;
        }
        Ok(Self(all))
    }

    /// Returns the request for the point with a minor number.
    pub(crate) fn get(&self, minor: u32) -> Option<&WatchRequest> {
        self.0.iter().find(|request| request.minor == minor)
    }
}

impl WatchRequest {
    /// Requests that an address be watched soon, or none. Context: any.
    pub(crate) fn send(&self, address: Option<u64>) {
        let address = address.unwrap_or(0) as usize;
        let is_done = self.wanted.load() == address && self.watched.load() == address;
        if is_done || self.is_closed.load() != 0 {
            return;
        }
        self.wanted.store(address);
        self.is_pending.store(1);
        worker::queue();
    }

    /// Returns true if a request was sent since the last call.
    pub(crate) fn take_pending(&self) -> bool {
        self.is_pending.swap(0) != 0
    }

    /// Returns the address requested last; 0 for none.
    pub(crate) fn wanted(&self) -> usize {
        self.wanted.load()
    }

    /// Returns the watched address; 0 for none.
    pub(crate) fn watched(&self) -> usize {
        self.watched.load()
    }

    /// Sets the watched address; 0 for none.
    pub(crate) fn set_watched(&self, address: usize) {
        self.watched.store(address);
    }

    /// Resets the request: no address is watched. Must not race with [`WatchRequest::send`].
    pub(crate) fn reset(&self) {
        self.wanted.store(0);
        self.watched.store(0);
        self.is_pending.store(0);
    }

    /// Ignores further requests: the point never watches again.
    pub(crate) fn close(&self) {
        self.is_closed.store(1);
        self.watched.store(0);
    }
}
