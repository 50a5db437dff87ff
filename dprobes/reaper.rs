// SPDX-License-Identifier: GPL-2.0

//! Detaches points with programs that never run again. A hit cannot remove its own breakpoint or
//! free its debug register; it asks this work item.
//!
//! Contexts: process; sleeps. Locks: the mutex of the programs, which is not held while handlers
//! are waited for. A module may be unloaded at the same time: the kprobes engine removes its
//! breakpoints before its memory is freed.
#![deny(unsafe_code)]

use ferro_sys::sync::deferred_call::OnErrand;

use crate::attachment::Attachment;
use crate::attachment::DetachReason;
use crate::point::Shared;
use crate::rearm::WatchRequest;
use crate::registry::Program;
use crate::registry::ProgramPoint;

/// Most attachments that are detached with one wait for their handlers.
const AT_ONCE: usize = 16;

impl OnErrand for Shared {
    fn on_errand(&self) {
        let goes = |slot: &mut ProgramPoint| slot.is_to_go().then(|| slot.take_stop());
        while end_some(self, |_| true, goes) {}
    }
}

/// Detaches the attachments that `take` takes from points of `chosen` programs. Returns true if
/// there may be more.
pub(crate) fn end_some(
    shared: &Shared,
    chosen: impl Fn(&Program) -> bool,
    take: impl Fn(&mut ProgramPoint) -> Option<Attachment>,
) -> bool {
    let mut gone = [const { Attachment::Detached(DetachReason::UsedUp) }; AT_ONCE];
    let mut places = gone.iter_mut().peekable();
    let mut programs = shared.programs.lock();
    for program in programs.iter_mut().filter(|program| chosen(program)) {
        for slot in &mut program.slots {
            // `take` is not called if there is no place for its result.
            let taken = places.peek().and_then(|_| take(slot));
            if let Some((stop, place)) = taken.and_then(|stop| Some((stop, places.next()?))) {
                *place = stop;
            }
        }
    }
    let is_full = places.peek().is_none();
    drop(programs);
    Attachment::detach_all(&mut gone);
    is_full
}

impl ProgramPoint {
    /// Returns true if the point is attached, and its program never runs again.
    fn is_to_go(&self) -> bool {
        !matches!(self.attachment, Attachment::Detached(_)) && self.point.is_to_go()
    }

    fn take_stop(&mut self) -> Attachment {
        self.keep_missed();
        let stop = core::mem::replace(
            &mut self.attachment,
            Attachment::Detached(DetachReason::UsedUp),
        );
        self.point.mailbox().into_iter().for_each(WatchRequest::end);
        stop
    }
}
