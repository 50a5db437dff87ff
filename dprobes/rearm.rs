// SPDX-License-Identifier: GPL-2.0

//! Watchpoints whose address a program says: hits leave it in a mailbox, and a work item has it watched.
//!
//! Contexts: asking any, NMI included; the rest process, sleeps. Locks: the mutex of the programs, then those of registering. What
//! was watched before is waited for when it is not locked any more.
#![deny(unsafe_code)]

use ferro_core::rpn::ProgramRef;
use ferro_sys::sync::deferred_call::Errand;
use ferro_sys::sync::shared_word::Word;
use kernel::prelude::*;

use crate::attachment::Attachment;
use crate::attachment::DetachReason;
use crate::point::Shared;
use crate::programs::ProgramPoint;
use crate::raw::worker;
use crate::raw::worker::OnWork;
use crate::reaper::end_some;

/// What is said of a watchpoint.
pub(crate) struct WatchRequest {
    minor: u32,
    /// The address that was said last; 0 for none. Stored before `is_asked`.
    wanted: Word,
    /// The address that is watched; 0 for none.
    watched: Word,
    /// Whether somebody has said something that was not looked at.
    is_asked: Word,
    /// Whether the point never watches again.
    is_over: Word,
}

/// Those of the points of a program that were loaded together.
pub(crate) struct WatchRequests(KVVec<WatchRequest>);

impl WatchRequests {
    /// Errors: -ENOMEM.
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

    /// That of a minor number.
    pub(crate) fn get(&self, minor: u32) -> Option<&WatchRequest> {
        self.0.iter().find(|mailbox| mailbox.minor == minor)
    }
}

impl WatchRequest {
    /// Has an address watched soon, or nothing. Context: any.
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

    /// The address that is watched; 0 for none.
    pub(crate) fn watched(&self) -> usize {
        self.watched.load()
    }

    /// Nothing is watched any more, and nobody says anything meanwhile.
    pub(crate) fn clear(&self) {
        self.wanted.store(0);
        self.watched.store(0);
        self.is_asked.store(0);
    }

    /// The point never watches again.
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
    /// Whether something was said of it since this was asked.
    fn is_asked(&self) -> bool {
        let mailbox = self.point.mailbox();
        mailbox.is_some_and(|mailbox| mailbox.is_asked.swap(0) != 0)
    }

    /// Watches what was said last. Returns what has watched until now, and whose debug register is free already.
    fn arm(&mut self) -> Attachment {
        let Some(mailbox) = self.point.mailbox() else {
            return Attachment::None(DetachReason::Disarmed);
        };
        let wanted = mailbox.wanted.load();
        if wanted != 0 && wanted == mailbox.watched() {
            return Attachment::None(DetachReason::Disarmed);
        }
        let old = core::mem::replace(&mut self.stop, Attachment::None(DetachReason::Disarmed));
        old.release();
        mailbox.watched.store(0);
        if self.point.is_used_up() {
            mailbox.end();
            self.stop = Attachment::None(DetachReason::UsedUp);
        } else if wanted != 0 {
            self.stop = match Attachment::at(wanted as u64, &self.point) {
                Ok(stop) => {
                    mailbox.watched.store(wanted);
                    stop
                }
                Err(error) => Attachment::None(DetachReason::of(error)),
            };
        }
        old
    }

    /// Nothing is watched any more, as its module has come or gone. Nobody says anything meanwhile.
    pub(crate) fn disarm(&mut self) {
        if let Some(mailbox) = self.point.mailbox() {
            mailbox.clear();
            self.stop = Attachment::None(DetachReason::Disarmed);
        }
    }
}
