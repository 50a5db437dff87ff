// SPDX-License-Identifier: GPL-2.0

//! Jumps whose last probes have gone.
//!
//! Such a jump does no harm: its detour finds no handlers to call. A work item takes many away together, so that unregistering does not
//! take as long as registering. It waits for no task, and is not the one that does. Until then the point stays, for the next probe there, and so does all that the registry does for one: a
//! probe in what the jump covers, or the code's going, takes it away at once.
//!
//! Contexts: process, sleeps; with the engine's mutex.
#![deny(unsafe_code)]

use ferro_sys::code::text::TextLock;

use crate::optprobe::Jump;
use crate::optprobe::AT_ONCE;
use crate::raw::mutex::Locked;
use crate::raw::optimizer_work;
use crate::registered_point::PointEntry;
use crate::state::Engine;

impl PointEntry {
    /// Returns true if it is a jump for no probes, which may stay for a while.
    pub(crate) fn may_idle(&self) -> bool {
        matches!(self.jump, Jump::Placed(..)) && self.point.probes.is_empty()
    }
}

impl Engine {
    /// Returns true if the work item is to take the jump at an address away.
    pub(crate) fn is_idle(&self, address: usize) -> bool {
        self.points.get(&address).is_some_and(|entry| entry.idle)
    }

    /// Whether the batch that is going on has taken the last probe of the point at an address.
    pub(crate) fn is_being_emptied(&self, address: usize) -> bool {
        self.is_empty_point(address) && !self.is_idle(address)
    }

    /// Leaves the jump at an address to the work item, which is to be [called](Engine::want_idle).
    pub(crate) fn let_idle(&mut self, address: usize) {
        if let Some(entry) = self.points.get_mut(&address) {
            entry.idle = true;
            self.idle_from = Some(0);
        }
    }

    /// Has the work item run if it is to take jumps away.
    pub(crate) fn want_idle(&self) {
        if self.idle_from.is_some() {
            optimizer_work::leave_idle_soon();
        }
    }

    /// Takes some of those jumps away, and their points. Whether there may be more.
    pub(crate) fn leave_idle(&mut self, locked: &Locked) -> bool {
        let Some(mut from) = self.idle_from.take() else {
            return false;
        };
        let mut list = core::mem::take(&mut self.leaving);
        list.clear();
        while let Some(address) = self.next_point(from) {
            if self.is_idle(address) {
                if list.len() == AT_ONCE || list.push_within_capacity(address).is_err() {
                    self.idle_from = Some(address);
                    break;
                }
            }
            from = address.wrapping_add(1);
        }
        let mut text = TextLock::new();
        self.leave(list.iter().copied(), &mut text, locked);
        let mut changed = false;
        for address in list.iter() {
            if let Some(entry) = self.points.get_mut(address) {
                entry.idle = false;
                // Code that has gone has no breakpoint either.
                changed |= entry.arm(&mut text, self.enabled, locked).unwrap_or(false);
            }
        }
        if changed {
            text.sync();
        }
        drop(text);
        for address in list.iter() {
            // One that a debugger has changed stays.
            self.retire(*address);
        }
        if !list.is_empty() {
            // Neighbours may have waited for these to go.
            self.want_jumps();
        }
        self.leaving = list;
        self.want_grace_period();
        self.idle_from.is_some()
    }
}
