// SPDX-License-Identifier: GPL-2.0

//! Reclaim of points without probes or code.
//!
//! A point without probes is no longer found by its address. Tasks may still be in its copies,
//! which stay in the lookup map until a grace period of RCU tasks is over. No caller waits for that
//! period: a task that never sleeps prolongs it.
//!
//! Contexts: process, sleeps; with the engine's mutex.
#![deny(unsafe_code)]

use ferro_sys::code::text::TextLock;

use crate::ftrace_probes::Idle;
use crate::raw::grace_period;
use crate::raw::grace_period::TasksPeriod;
use crate::raw::kprobe::flags;
use crate::raw::mutex::Locked;
use crate::registered_point::Breakpoint;
use crate::registered_point::PointList;
use crate::registered_point::RegisteredPoint;
use crate::registry::State;

impl State {
    /// Retires the point at an address if it has no probes: removes it from the lookup map; its
    /// copies stay for now. Returns false if a jump still leads to the point, which then stays.
    pub(crate) fn retire(&mut self, address: usize) -> bool {
        if !self.is_empty_point(address) {
            return true;
        }
        if self.is_jumped(address) {
            return false;
        }
        if let Some(mut entry) = self.points.remove(&address) {
            if let Some(mode) = entry.ftrace_mode.take() {
                // ftrace could not remove the site.
                self.ftrace.abandon(mode, address);
                self.called_sites = self.called_sites.saturating_sub(1);
            }
            self.hide(&mut entry);
            self.retired.push(entry);
        }
        true
    }

    /// Retires the points without probes in code that was freed.
    pub(crate) fn retire_gone(&mut self) {
        for entry in core::mem::replace(&mut self.gone, PointList::new()) {
            match entry.point.probes.is_empty() {
                true => self.retired.push(entry),
                false => self.gone.push(entry),
            }
        }
    }

    /// Schedules `registry::reap()` after a grace period of RCU tasks, if something waits for one,
    /// unless a call is due already. No caller waits for it: a task that never sleeps prolongs it.
    pub(crate) fn schedule_reap(&mut self) {
        let any = !self.retired.is_empty() || self.ftrace.any_left();
        if any && !self.is_reap_due && grace_period::call_reap() {
            self.is_reap_due = true;
            core::mem::swap(&mut self.waiting, &mut self.retired);
        }
    }

    /// Removes waiting points from the lookup maps after their grace period. Returns the points,
    /// and the ftrace modes to close without the mutex.
    pub(crate) fn take_waiting(&mut self, period: &TasksPeriod) -> (PointList, Idle) {
        self.is_reap_due = false;
        let idle = self.ftrace.release(period);
        let mut over = PointList::new();
        for mut entry in core::mem::replace(&mut self.waiting, PointList::new()) {
            let addresses = entry.slot_addresses();
            for (removed, address) in entry.removed.iter_mut().skip(1).zip(addresses) {
                *removed = self.maps.copies.remove(address);
            }
            over.push(entry);
        }
        self.schedule_reap();
        (over, idle)
    }

    /// Removes a point's own address from the lookup map. Hits no longer find the point.
    fn hide(&mut self, entry: &mut RegisteredPoint) {
        let [own, ..] = &mut entry.removed;
        *own = self.maps.points.remove(entry.point.address);
    }

    /// Moves the points in code that is about to be freed to `gone`, and marks their probes.
    pub(crate) fn kill(&mut self, is_going: impl Fn(usize) -> bool, locked: &Locked) {
        let mut from = 0;
        while let Some(address) = self.next_point(from) {
            from = address.wrapping_add(1);
            if is_going(address) {
                self.kill_point(address, locked);
            }
        }
        // Points with idle jumps have no probes.
        self.retire_gone();
        self.schedule_reap();
    }

    fn kill_point(&mut self, address: usize, locked: &Locked) {
        // ftrace still knows the site.
        if let Some(mode) = self
            .points
            .get(&address)
            .and_then(|entry| entry.ftrace_mode)
        {
            self.ftrace.abandon(mode, address);
            self.called_sites = self.called_sites.saturating_sub(1);
        }
        let Some(mut entry) = self.points.remove(&address) else {
            return;
        };
        for probe in entry.point.probes.iter(locked) {
            probe.set_flags(probe.flags() & !flags::OPTIMIZED | flags::GONE);
        }
        entry.point.probes.update_single(locked);
        self.hide(&mut entry);
        // The breakpoint and the jump are freed with the code.
        entry.breakpoint = Breakpoint::None;
        self.abandon_jump(&mut entry);
        entry.ftrace_mode = None;
        self.gone.push(entry);
    }

    /// Retires all points. Returns false while a debugger has changed a jump: the jump reappears
    /// when the debugger restores the bytes.
    pub(crate) fn clear(&mut self, locked: &Locked) -> bool {
        // No more jumps are placed.
        self.enabled = false;
        self.unoptimize_all(&mut TextLock::new(), locked);
        if self.detours != 0 {
            return false;
        }
        // Code that was freed has no breakpoint.
        let _ = self.enable_all(false, locked);
        self.kill(|_| true, locked);
        true
    }
}
