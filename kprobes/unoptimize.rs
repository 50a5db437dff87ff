// SPDX-License-Identifier: GPL-2.0

//! Deferred removal of jumps after their last probes are unregistered.
//!
//! Such a jump does no harm: its detour finds no handlers to call. A work item removes many of them
//! together, so that unregistering does not take as long as registering. The work item waits for no
//! task, and is not the one that optimizes, which does.
//!
//! The point stays until then, for the next probe there. The registry treats it like any other
//! point: a probe in the bytes that the jump covers, or the freeing of the code, removes the jump
//! at once.
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
    /// Returns true if the point has a jump and no probes: the jump may stay for a while.
    pub(crate) fn may_idle(&self) -> bool {
        matches!(self.jump, Jump::Placed(..)) && self.point.probes.is_empty()
    }
}

impl Engine {
    /// Returns true if the work item has to remove the jump at an address.
    pub(crate) fn is_idle(&self, address: usize) -> bool {
        self.points.get(&address).is_some_and(|entry| entry.idle)
    }

    /// Returns true if the current batch has removed the last probe of the point at an address.
    pub(crate) fn is_being_emptied(&self, address: usize) -> bool {
        self.is_empty_point(address) && !self.is_idle(address)
    }

    /// Leaves the jump at an address to the work item. The caller has to
    /// [schedule](Engine::want_idle) it.
    pub(crate) fn let_idle(&mut self, address: usize) {
        if let Some(entry) = self.points.get_mut(&address) {
            entry.idle = true;
            self.idle_from = Some(0);
        }
    }

    /// Schedules the work item if it has jumps to remove.
    pub(crate) fn want_idle(&self) {
        if self.idle_from.is_some() {
            optimizer_work::leave_idle_soon();
        }
    }

    /// Removes some of those jumps, and their points. Returns true if there may be more.
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
                // Code that was freed has no breakpoint either.
                changed |= entry.arm(&mut text, self.enabled, locked).unwrap_or(false);
            }
        }
        if changed {
            text.sync();
        }
        drop(text);
        for address in list.iter() {
            // A jump that a debugger has changed stays.
            self.retire(*address);
        }
        if !list.is_empty() {
            // Neighbours may have waited for the removal of these.
            self.want_jumps();
        }
        self.leaving = list;
        self.want_grace_period();
        self.idle_from.is_some()
    }
}
