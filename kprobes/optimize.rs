// SPDX-License-Identifier: GPL-2.0

//! Optimization: makes detours, redirects hits to them, and places the jumps. `optprobe.rs` has the
//! order, and the reasons.
//!
//! Contexts: process, sleeps; the worker, with the engine's mutex. Locks inside of it as in
//! `registry.rs`.
#![deny(unsafe_code)]

use ferro_kprobes_core::jump::Displaced;
use ferro_sys::code::jump_site::jump_all;
use ferro_sys::code::text::TextLock;
use kernel::prelude::*;

use crate::optprobe::OptimizerPass;
use crate::optprobe::Optprobe;
use crate::optprobe::AT_ONCE;
use crate::optprobe::READY_MAX;
use crate::raw::detour::Detour;
use crate::raw::detour::DetourKind;
use crate::raw::detour::DETOUR_ADDRESSES;
use crate::raw::grace_period::TasksPeriod;
use crate::raw::insn_stub::CodeError;
use crate::raw::mutex::Locked;
use crate::raw::optimizer_work;
use crate::registered_point::add_to_map;
use crate::registered_point::Breakpoint;
use crate::registered_point::RegisteredPoint;
use crate::registry::State;

impl RegisteredPoint {
    /// Returns true if the probes may be called by a jump.
    fn may_jump(&self, locked: &Locked) -> bool {
        let mut probes = self.point.probes.iter(locked);
        self.has_enabled(locked) && probes.all(|probe| probe.fault_handler().is_none())
    }

    /// Swaps the current and the spare detour if only the spare one fits. Keeps the other one, as
    /// tasks may be in it: a point has one for pre-handlers only, and one for both kinds.
    fn select_detour(&mut self) {
        let is_open = matches!(self.optprobe, Optprobe::Unknown | Optprobe::Ready(_));
        if !is_open
            || self
                .optprobe
                .detour()
                .is_some_and(|detour| self.suits(detour))
        {
            return;
        }
        let old = match self.optprobe.take() {
            Optprobe::Ready(detour) => Some(detour),
            _ => None,
        };
        (self.optprobe, self.spare) = match (old, self.spare.take()) {
            (old, Some(detour)) if self.suits(&detour) => (Optprobe::Ready(detour), old),
            (None, spare) => (Optprobe::Unknown, spare),
            (old, None) => (Optprobe::Unknown, old),
            (Some(old), spare) => (Optprobe::Ready(old), spare),
        };
    }

    /// Returns true if a detour is to be made for the point, or used.
    fn wants_detour(&self, locked: &Locked) -> bool {
        matches!(self.optprobe, Optprobe::Unknown | Optprobe::Ready(_))
            && matches!(self.breakpoint, Breakpoint::Armed(_))
            && self.may_jump(locked)
            && !(self.no_post_detour && self.is_posting())
    }

    /// Makes a detour that calls the kinds of handlers that the probes have. Errors: as
    /// [`Detour::new`].
    fn detour_for(&self, displaced: Option<&Displaced>) -> Result<Detour, CodeError> {
        let displaced = displaced.ok_or(CodeError::OutOfReach)?;
        let new = |kind| Detour::new(&self.point, displaced, kind);
        if !self.is_posting() {
            return new(DetourKind::Before);
        }
        match new(DetourKind::Around) {
            Err(CodeError::OutOfReach) if self.point.runs_on_registers() => {
                new(DetourKind::Instead)
            }
            made => made,
        }
    }
}

impl State {
    /// Makes the worker look for points to optimize.
    pub(crate) fn kick_optimizer(&mut self) {
        if self.enabled && self.is_optimizing && !self.points.is_empty() {
            self.optimizer_due = true;
            optimizer_work::schedule();
        }
    }

    /// Switches optimization on, which places jumps soon, or off, which removes all jumps.
    pub(crate) fn set_optimizing(&mut self, on: bool, locked: &Locked) {
        self.is_optimizing = on;
        match on {
            true => self.kick_optimizer(),
            false => self.unoptimize_all(&mut TextLock::new(), locked),
        }
    }

    /// Returns true if another point is within `len` bytes from an address.
    fn has_neighbour(&self, address: usize, len: usize) -> bool {
        let next = self.next_point(address.wrapping_add(1));
        next.is_some_and(|next| next < address.saturating_add(len))
    }

    /// Continues to look for points that can have jumps.
    ///
    /// Returns two values. The first is true if hits of more points now resume in detours, the
    /// second if more points are left to look at.
    pub(crate) fn prepare_jumps(&mut self, locked: &Locked) -> (bool, bool) {
        if !self.enabled || !self.is_optimizing {
            self.pass = None;
            return (false, false);
        }
        let mut pass = match self.pass.take() {
            None if core::mem::take(&mut self.optimizer_due) => OptimizerPass::new(),
            None => return (false, false),
            Some(pass) => pass,
        };
        let mut made = false;
        let more = self.make_some(&mut pass, locked);
        if !more || pass.count == READY_MAX {
            made = self.publish_some(&mut pass, locked);
        }
        if more {
            self.pass = Some(pass);
        } else if core::mem::take(&mut self.detours_failed) {
            self.optimizer_due = true;
            optimizer_work::schedule_later();
        }
        (made, more)
    }

    /// Makes detours for some of the next points. Stops after the first function that has to be
    /// analysed. Returns true if there are more points.
    fn make_some(&mut self, pass: &mut OptimizerPass, locked: &Locked) -> bool {
        for _ in 0..AT_ONCE {
            let Some(address) = self.next_point(pass.next) else {
                return false;
            };
            pass.next = address.wrapping_add(1);
            if !self.wants_detour(address, locked) {
                continue;
            }
            let analysed = self.make_detour(address);
            let entry = self.points.get(&address);
            let is_ready = entry.is_some_and(|entry| matches!(entry.optprobe, Optprobe::Ready(_)));
            if is_ready && !pass.note(address) || analysed {
                break;
            }
        }
        true
    }

    /// Redirects hits of the points with new detours. Returns true if there were any.
    fn publish_some(&mut self, pass: &mut OptimizerPass, locked: &Locked) -> bool {
        let count = core::mem::take(&mut pass.count);
        if count == 0 {
            return false;
        }
        let mut made = false;
        let mut text = TextLock::new();
        for address in pass.ready.iter().copied().take(count) {
            // The mutex was released since the detour was made.
            if self.wants_detour(address, locked) {
                made |= self.publish_detour(address, &mut text, locked);
            }
        }
        made
    }

    /// Returns true if a detour is to be made for the point at an address, or used.
    fn wants_detour(&self, address: usize, locked: &Locked) -> bool {
        let entry = self.points.get(&address);
        let wanted = entry.filter(|entry| entry.wants_detour(locked));
        // A point with a neighbour waits until the neighbour is removed.
        let len = wanted.map(|entry| entry.optprobe.detour().map_or(1, Detour::displaced));
        len.is_some_and(|len| !self.has_neighbour(address, len))
    }

    /// Makes a point's detour, if it has none that fits and one is possible. Returns true if the
    /// function had to be analysed.
    fn make_detour(&mut self, address: usize) -> bool {
        if let Some(entry) = self.points.get_mut(&address) {
            entry.select_detour();
        }
        self.make_first(address)
    }

    /// Makes the detour of a point that has none. Returns true if the function had to be analysed.
    fn make_first(&mut self, address: usize) -> bool {
        let unknown = |entry: &&KBox<RegisteredPoint>| matches!(entry.optprobe, Optprobe::Unknown);
        if self.points.get(&address).filter(unknown).is_none() {
            return false;
        }
        let displaced = self.displaceable(address);
        let room = self.maps.copies.reserve(DETOUR_ADDRESSES);
        let made = match self.points.get(&address) {
            Some(entry) => room
                .map_err(CodeError::from)
                .and_then(|()| entry.detour_for(displaced.as_ref())),
            None => return true,
        };
        let Some(entry) = self.points.get_mut(&address) else {
            return true;
        };
        match made {
            Ok(detour) => {
                // The room was reserved above.
                let _ = add_to_map(&mut self.maps.copies, &entry.point, &detour.addresses());
                entry.optprobe = Optprobe::Ready(detour);
            }
            Err(CodeError::NoMemory) => self.detours_failed = true,
            // A detour for pre-handlers only is still possible.
            Err(_) if displaced.is_some() && entry.is_posting() => entry.no_post_detour = true,
            Err(_) => entry.optprobe = Optprobe::Impossible,
        }
        true
    }

    /// Redirects hits of a point to its detour, if the detour fits. Returns true if it does.
    fn publish_detour(&mut self, address: usize, text: &mut TextLock, locked: &Locked) -> bool {
        let Some(entry) = self.points.get_mut(&address) else {
            return false;
        };
        let fits = entry.fits();
        match entry.optprobe.take() {
            Optprobe::Ready(detour) if fits => {
                let since = detour.publish(text);
                entry.optprobe = Optprobe::Waiting(detour, since);
                entry.set_optimized(true, locked);
                self.detours = self.detours.saturating_add(1);
                true
            }
            other => {
                entry.optprobe = other;
                false
            }
        }
    }

    /// Places some of the jumps that have waited long enough. Returns true if there may be more.
    pub(crate) fn place_jumps(&mut self, waited: &TasksPeriod, locked: &Locked) -> bool {
        let mut left = AT_ONCE;
        let mut text = TextLock::new();
        let detours = &mut self.detours;
        jump_all(&mut text, |batch| {
            for entry in self.points.values_mut() {
                if left == 0 {
                    break;
                }
                let is_due =
                    matches!(&entry.optprobe, Optprobe::Waiting(_, since) if since.is_over(waited));
                if !is_due || !matches!(entry.breakpoint, Breakpoint::Armed(_)) {
                    continue;
                }
                left -= 1;
                let now = core::mem::replace(&mut entry.breakpoint, Breakpoint::Jumped);
                (entry.breakpoint, entry.optprobe) = match (now, entry.optprobe.take()) {
                    (Breakpoint::Armed(site), Optprobe::Waiting(detour, since)) => {
                        match detour.place_jump(site, since, waited, batch) {
                            Ok(site) => (Breakpoint::Jumped, Optprobe::Placed(detour, site)),
                            // The code is about to be freed, or something else has patched it.
                            Err(site) => {
                                entry.point.set_detour(None);
                                entry.set_optimized(false, locked);
                                *detours = detours.saturating_sub(1);
                                (Breakpoint::Armed(site), Optprobe::Ready(detour))
                            }
                        }
                    }
                    unchanged => unchanged,
                };
            }
        });
        left == 0
    }
}
