// SPDX-License-Identifier: GPL-2.0

//! What hits ask for and cannot do themselves: that the breakpoint or the debug register of a point goes back, as the point's program
//! never runs again.
//!
//! Contexts: process; sleeps. Locks: the mutex of the programs. What is elsewhere than in a module goes when it is not locked any
//! more, as that waits for handlers.
#![deny(unsafe_code)]

use ferro_sys::sync::errand::OnErrand;

use crate::place::Idle;
use crate::place::Stop;
use crate::point::Shared;
use crate::table::Slot;

/// How many go with one wait for their handlers.
const AT_ONCE: usize = 16;

impl OnErrand for Shared {
    fn on_errand(&self) {
        while settle(self) {}
    }
}

/// Does some of it. Whether there may be more.
fn settle(shared: &Shared) -> bool {
    let mut gone = [const { Stop::None(Idle::UsedUp) }; AT_ONCE];
    let mut places = gone.iter_mut().peekable();
    let mut programs = shared.programs.lock();
    let mut is_of_module = false;
    for program in programs.iter_mut() {
        let of_this = program.is_of_module();
        for slot in &mut program.slots {
            // What there is no place for keeps that it was said.
            if places.peek().is_some() && slot.is_to_go() {
                is_of_module |= of_this;
                let place = places.next();
                place
                    .into_iter()
                    .for_each(|place| *place = slot.take_stop());
            }
        }
    }
    let is_full = places.peek().is_none();
    // A module must not go before what is in it.
    let programs = is_of_module.then_some(programs);
    Stop::end_all(&mut gone);
    drop(programs);
    is_full
}

impl Slot {
    /// Whether it has something that it never needs again.
    fn is_to_go(&self) -> bool {
        !matches!(self.stop, Stop::None(_)) && self.point.is_to_go()
    }

    fn take_stop(&mut self) -> Stop {
        let stop = core::mem::replace(&mut self.stop, Stop::None(Idle::UsedUp));
        self.missed = self.missed.saturating_add(stop.missed());
        stop
    }
}
