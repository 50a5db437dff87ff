// SPDX-License-Identifier: GPL-2.0

//! Watchpoints with an address that a program supplies: hits store the address in a request, and a
//! work item arms the watchpoint.
//!
//! Contexts: requesting any, NMI included; the rest process, sleeps. Locks: the mutex of the
//! programs, then the locks of registering. Handlers of the previous watchpoint are waited for
//! after the mutex has been released.
#![deny(unsafe_code)]

use ferro_core::rpn::ProgramRef;
use ferro_sys::sync::deferred_call::Errand;
use ferro_sys::sync::shared_word::Word;
use kernel::prelude::*;

use crate::attachment::Attachment;
use crate::attachment::DetachReason;
use crate::point::Shared;
use crate::raw::worker;
use crate::raw::worker::OnWork;
use crate::reaper::end_some;
use crate::registry::ProgramPoint;

/// Request for a watchpoint.
pub(crate) struct WatchRequest {
    minor: u32,
    /// Address requested last; 0 for none. Stored before `is_asked`.
    wanted: Word,
    /// Watched address; 0 for none.
    watched: Word,
    /// 1 if a request has not been handled yet.
    is_asked: Word,
    /// 1 if the point never watches again.
    is_over: Word,
}

/// Requests for the points of a program that were loaded together.
pub(crate) struct WatchRequests(KVVec<WatchRequest>);

impl WatchRequests {
    /// Makes a request for each point without an initial address. Errors: -ENOMEM.
    pub(crate) fn new(program: &ProgramRef<'_>) -> Result<Self> {
        let mut all = KVVec::new();
        for point in program.points().filter(|point| point.point.is_later) {
            let mailbox = WatchRequest {
                minor: point.point.minor,
                wanted: Word::new(0),
                watched: Word::new(0),
                is_asked: Word::new(0),
                is_over: Word::new(0),
            };
            all.push(mailbox, GFP_KERNEL)?;
        }
        Ok(Self(all))
    }

    /// Returns the request for the point with a minor number.
    pub(crate) fn get(&self, minor: u32) -> Option<&WatchRequest> {
        self.0.iter().find(|mailbox| mailbox.minor == minor)
    }
}

impl WatchRequest {
    /// Requests that an address be watched soon, or none. Context: any.
    pub(crate) fn say(&self, address: Option<u64>) {
        let address = address.unwrap_or(0) as usize;
        let is_so = self.wanted.load() == address && self.watched.load() == address;
        if is_so || self.is_over.load() != 0 {
            return;
        }
        self.wanted.store(address);
        self.is_asked.store(1);
        worker::ask();
    }

    /// Returns the watched address; 0 for none.
    pub(crate) fn watched(&self) -> usize {
        self.watched.load()
    }

    /// Resets the request: no address is watched. Must not race with [`WatchRequest::say`].
    pub(crate) fn clear(&self) {
        self.wanted.store(0);
        self.watched.store(0);
        self.is_asked.store(0);
    }

    /// Marks that the point never watches again.
    pub(crate) fn end(&self) {
        self.is_over.store(1);
        self.watched.store(0);
    }
}

impl OnWork for Errand<Shared> {
    fn on_work(&self) {
        let is_full = end_some(self, |_| true, |slot| slot.is_asked().then(|| slot.arm()));
        if is_full {
            worker::ask();
        }
    }
}

impl ProgramPoint {
    /// Returns true if a request was made since the last call.
    fn is_asked(&self) -> bool {
        let mailbox = self.point.mailbox();
        mailbox.is_some_and(|mailbox| mailbox.is_asked.swap(0) != 0)
    }

    /// Watches the requested address. Returns the previous attachment, after freeing its debug
    /// register.
    fn arm(&mut self) -> Attachment {
        let Some(mailbox) = self.point.mailbox() else {
            return Attachment::Detached(DetachReason::Disarmed);
        };
        let wanted = mailbox.wanted.load();
        if wanted != 0 && wanted == mailbox.watched() {
            return Attachment::Detached(DetachReason::Disarmed);
        }
        let old = core::mem::replace(
            &mut self.attachment,
            Attachment::Detached(DetachReason::Disarmed),
        );
        old.release();
        mailbox.watched.store(0);
        if self.point.is_used_up() {
            mailbox.end();
            self.attachment = Attachment::Detached(DetachReason::UsedUp);
        } else if wanted != 0 {
            self.attachment = match Attachment::at(wanted as u64, &self.point) {
                Ok(stop) => {
                    mailbox.watched.store(wanted);
                    stop
                }
                Err(error) => Attachment::Detached(DetachReason::of(error)),
            };
        }
        old
    }

    /// Forgets the watched address, as its module was loaded or unloaded. Must not race with
    /// requests.
    pub(crate) fn disarm(&mut self) {
        if let Some(mailbox) = self.point.mailbox() {
            mailbox.clear();
            self.attachment = Attachment::Detached(DetachReason::Disarmed);
        }
    }
}
