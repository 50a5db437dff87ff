// SPDX-License-Identifier: GPL-2.0

//! Removal of jumps: at once where something needs that, or later after the last probe.
//!
//! A jump without probes is *idle*. It does no harm, as its detour finds no handlers to call. A
//! work item removes many idle jumps together, so that unregistering does not take as long as
//! registering. That work item never waits for tasks, unlike the one that optimizes.
//!
//! The point stays until then, for the next probe there. The registry treats it like any other
//! point: a probe in the bytes that the jump covers, or the freeing of the code, removes the jump
//! at once.
//!
//! Contexts: process, sleeps; with the engine's mutex. Locks inside of it as in `registry.rs`.
#![deny(unsafe_code)]

use ferro_kprobes_core::jump::MAX_DISPLACED;
use ferro_sys::code::symbols::Shown;
use ferro_sys::code::text::TextLock;
use kernel::prelude::*;

use crate::error::Error;
use crate::optprobe::Optprobe;
use crate::optprobe::AT_ONCE;
use crate::raw::detour::Detour;
use crate::raw::detour::DetourKind;
use crate::raw::kprobe::Kprobe;
use crate::raw::mutex::Locked;
use crate::raw::optimizer_work;
use crate::registered_point::Breakpoint;
use crate::registered_point::RegisteredPoint;
use crate::registry::State;

impl RegisteredPoint {
    /// Makes hits of the breakpoint execute the instruction without the detour.
    fn unpublish(&mut self, detour: Detour, locked: &Locked) {
        self.point.set_detour(None);
        self.set_optimized(false, locked);
        self.optprobe = Optprobe::Ready(detour);
    }

    /// Returns true if the jump must be removed before this probe is registered.
    fn is_disturbed(&self, probe: Kprobe<'_>) -> bool {
        let covered = self.optprobe.displaces();
        if self.point.address != probe.address() {
            return self.point.address.saturating_add(covered) > probe.address();
        }
        let kind = self.optprobe.detour().map(Detour::kind);
        let is_before = kind == Some(DetourKind::Before);
        let needs_more = probe.has_post() && is_before;
        // An idle jump with a detour that does more than the new probe needs.
        let needs_less = self.point.probes.is_empty()
            && (!probe.is_enabled() || !probe.has_post() && !is_before);
        covered != 0 && (needs_more || needs_less || probe.fault_handler().is_some())
    }

    /// Returns true if the jump is idle: it may stay until the work item removes it.
    fn may_idle(&self) -> bool {
        matches!(self.optprobe, Optprobe::Placed(..)) && self.point.probes.is_empty()
    }
}

impl State {
    /// Removes the jumps at these addresses, and cancels those that wait to be placed. Hits use
    /// breakpoints afterwards. A jump that something else has changed stays.
    pub(crate) fn unoptimize(
        &mut self,
        addresses: impl Iterator<Item = usize> + Clone,
        text: &mut TextLock,
        locked: &Locked,
    ) {
        let mut any = false;
        for address in addresses.clone() {
            let Some(entry) = self.points.get_mut(&address) else {
                continue;
            };
            match entry.optprobe.take() {
                Optprobe::Placed(detour, site) => match site.stop(text) {
                    Ok(site) => {
                        entry.optprobe = Optprobe::Unoptimizing(detour, site);
                        any = true;
                    }
                    Err(site) => {
                        entry.optprobe = Optprobe::Placed(detour, site);
                        optimizer_work::pin_module();
                        if !core::mem::replace(&mut entry.warned, true) {
                            pr_warn!("other code has changed the jump at {}\n", Shown(address));
                        }
                    }
                },
                Optprobe::Waiting(detour, _) => {
                    entry.unpublish(detour, locked);
                    self.detours = self.detours.saturating_sub(1);
                }
                other => entry.optprobe = other,
            }
        }
        if !any {
            return;
        }
        text.sync();
        for address in addresses.clone() {
            let Some(entry) = self.points.get_mut(&address) else {
                continue;
            };
            match entry.optprobe.take() {
                Optprobe::Unoptimizing(detour, site) => {
                    entry.breakpoint = Breakpoint::Armed(site.restore(text));
                    entry.optprobe = Optprobe::Restored(detour);
                }
                other => entry.optprobe = other,
            }
        }
        text.sync();
        // Later hits may enter the bytes that the jump covered.
        for address in addresses {
            let Some(entry) = self.points.get_mut(&address) else {
                continue;
            };
            match entry.optprobe.take() {
                Optprobe::Restored(detour) => {
                    entry.unpublish(detour, locked);
                    self.detours = self.detours.saturating_sub(1);
                }
                other => entry.optprobe = other,
            }
        }
    }

    /// Removes the jumps at these addresses that have no enabled probes, or detours that do not
    /// fit.
    pub(crate) fn unoptimize_unwanted(
        &mut self,
        addresses: impl Iterator<Item = usize> + Clone,
        text: &mut TextLock,
        locked: &Locked,
    ) {
        if self.detours == 0 {
            return;
        }
        // Removing some does not change which of the others are unwanted.
        let mut list = core::mem::take(&mut self.unoptimizing);
        list.clear();
        for address in addresses {
            let entry = self.points.get(&address);
            let unwanted = entry.is_some_and(|entry| {
                entry.optprobe.displaces() != 0
                    && !(entry.has_enabled(locked) && entry.fits())
                    && !entry.may_idle()
            });
            if !unwanted {
                continue;
            }
            if list.push_within_capacity(address).is_err() {
                // The list is full: remove these first.
                self.unoptimize(list.iter().copied(), text, locked);
                list.clear();
                if list.push_within_capacity(address).is_err() {
                    self.unoptimize(core::iter::once(address), text, locked);
                }
            }
        }
        self.unoptimize(list.iter().copied(), text, locked);
        self.unoptimizing = list;
    }

    /// Removes all jumps.
    pub(crate) fn unoptimize_all(&mut self, text: &mut TextLock, locked: &Locked) {
        let mut from = 0;
        while self.detours != 0 {
            let mut list = [0; AT_ONCE];
            let mut len = 0;
            while let (Some(to), Some(address)) = (list.get_mut(len), self.next_point(from)) {
                from = address.wrapping_add(1);
                let entry = self.points.get(&address);
                if entry.is_some_and(|entry| entry.optprobe.displaces() != 0) {
                    *to = address;
                    len += 1;
                }
            }
            if len == 0 {
                break;
            }
            let list = list.get(..len).unwrap_or(&[]);
            self.unoptimize(list.iter().copied(), text, locked);
        }
    }

    /// Removes the jumps that these probes do not allow: jumps that cover a probe, and jumps at a
    /// probe's address whose detour lacks its kind of handler.
    ///
    /// Errors: -ENOMEM; -EILSEQ if a debugger has changed one.
    pub(crate) fn unoptimize_disturbed(
        &mut self,
        probes: &[Kprobe<'_>],
        locked: &Locked,
    ) -> Result<(), Error> {
        if self.detours == 0 {
            return Ok(());
        }
        let mut list = KVVec::new();
        for probe in probes {
            let address = probe.address();
            let mut from = address.saturating_sub(MAX_DISPLACED);
            while let Some(at) = self.next_point(from).filter(|at| *at <= address) {
                from = at.wrapping_add(1);
                let entry = self.points.get(&at);
                if entry.is_some_and(|entry| entry.is_disturbed(*probe)) {
                    list.push(at, GFP_KERNEL)?;
                }
            }
        }
        if !list.is_empty() {
            let mut text = TextLock::new();
            self.unoptimize(list.iter().copied(), &mut text, locked);
        }
        match list.iter().any(|at| self.is_jumped(*at)) {
            true => Err(Error::Debugged),
            false => Ok(()),
        }
    }

    /// Returns true if a jump is at this address.
    pub(crate) fn is_jumped(&self, address: usize) -> bool {
        let entry = self.points.get(&address);
        entry.is_some_and(|entry| matches!(entry.optprobe, Optprobe::Placed(..)))
    }

    /// Forgets the jump of a point before its code is freed.
    pub(crate) fn abandon_jump(&mut self, entry: &mut RegisteredPoint) {
        if entry.optprobe.displaces() != 0 {
            self.detours = self.detours.saturating_sub(1);
        }
        entry.optprobe = match entry.optprobe.take() {
            Optprobe::Waiting(detour, _) | Optprobe::Placed(detour, _) => Optprobe::Ready(detour),
            other => other,
        };
    }

    /// Returns true if the jump at an address was left to the work item.
    pub(crate) fn is_idle(&self, address: usize) -> bool {
        self.points.get(&address).is_some_and(|entry| entry.idle)
    }

    /// Returns true if the current batch has removed the last probe of the point at an address.
    pub(crate) fn is_being_emptied(&self, address: usize) -> bool {
        self.is_empty_point(address) && !self.is_idle(address)
    }

    /// Leaves the jump at an address to the work item. The caller has to call
    /// [`State::schedule_idle_work`].
    pub(crate) fn mark_idle(&mut self, address: usize) {
        if let Some(entry) = self.points.get_mut(&address) {
            entry.idle = true;
            self.idle_from = Some(0);
        }
    }

    /// Schedules the work item if it has jumps to remove.
    pub(crate) fn schedule_idle_work(&self) {
        if self.idle_from.is_some() {
            optimizer_work::schedule_unoptimize();
        }
    }

    /// Removes some of the idle jumps, and their points. Returns true if there may be more.
    pub(crate) fn unoptimize_idle(&mut self, locked: &Locked) -> bool {
        let Some(mut from) = self.idle_from.take() else {
            return false;
        };
        let mut list = core::mem::take(&mut self.unoptimizing);
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
        self.unoptimize(list.iter().copied(), &mut text, locked);
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
            self.kick_optimizer();
        }
        self.unoptimizing = list;
        self.schedule_reap();
        self.idle_from.is_some()
    }
}
