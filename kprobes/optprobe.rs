// SPDX-License-Identifier: GPL-2.0

//! Optprobes: points with jumps in the place of breakpoints.
//!
//! A point is armed with a breakpoint first. Then:
//!
//! 1. `can_optimize.rs` finds that a jump may stand there. A detour is made, and every CPU is told
//!    of its code. Hits of the breakpoint resume in the detour's copies of the instructions
//!    ([`Jump::Waiting`]). So no task enters the bytes that the jump is going to cover.
//! 2. The worker waits for a grace period of RCU tasks, without a lock. After it no task is in
//!    those bytes.
//! 3. If nothing has changed by then, the jump is placed ([`Jump::Placed`]).
//!
//! `optimize.rs` does that.
//!
//! A jump is removed at once, before the call that needs this returns, in these cases:
//!
//! - a probe in the bytes that the jump covers, enabled or not,
//! - a fault handler,
//! - the first post-handler, which needs another detour,
//! - no enabled probe.
//!
//! The detour is kept for the next time ([`Jump::Ready`]).
//!
//! After the last probe is unregistered, the jump stays until a work item removes many of them
//! together: `unoptimize.rs`.
//!
//! A debugger that has written into a jump later restores the bytes that it found there. Such a
//! jump stays, and so does its point.
//!
//! Contexts: process, sleeps; with the engine's mutex. Locks inside of it as in `state.rs`.
#![deny(unsafe_code)]

use ferro_core::insn::jump::MAX_DISPLACED;
use ferro_sys::code::jump_site::JumpedSite;
use ferro_sys::code::jump_site::StoppedSite;
use ferro_sys::code::symbols::Shown;
use ferro_sys::code::text::TextLock;
use kernel::prelude::*;

use crate::error::Error;
use crate::raw::detour::Detour;
use crate::raw::detour::Kind;
use crate::raw::detour::DETOUR_ADDRESSES;
use crate::raw::kprobe::flags;
use crate::raw::kprobe::Kprobe;
use crate::raw::mutex::Locked;
use crate::raw::optimizer_work;
use crate::raw::tasks_rcu::Since;
use crate::registered_point::Breakpoint;
use crate::registered_point::PointEntry;
use crate::state::Engine;

/// Number of points to look at, or jumps to place, before the engine's mutex and `text_mutex` are
/// released. At most one function is analysed in that time.
pub(crate) const AT_ONCE: usize = 64;

/// State of a point's jump.
pub(crate) enum Jump {
    /// Not analysed yet.
    Unknown,
    /// No jump is possible.
    Impossible,
    /// A jump is possible; no hit uses the detour.
    Ready(Detour),
    /// Hits of the breakpoint resume in the detour's copies.
    Waiting(Detour, Since),
    /// The jump is placed.
    Placed(Detour, JumpedSite),
    /// A breakpoint is in the place of the jump's first byte. Only while `text_mutex` is held.
    Leaving(Detour, StoppedSite),
    /// The bytes that the jump covered are restored, but not every CPU has been told. Only while
    /// `text_mutex` is held.
    Restored(Detour),
}

impl Jump {
    pub(crate) fn detour(&self) -> Option<&Detour> {
        match self {
            Self::Unknown | Self::Impossible => None,
            Self::Ready(detour)
            | Self::Waiting(detour, _)
            | Self::Placed(detour, _)
            | Self::Leaving(detour, _)
            | Self::Restored(detour) => Some(detour),
        }
    }

    /// Returns [`Detour::addresses`], or zeros.
    pub(crate) fn addresses(&self) -> [usize; DETOUR_ADDRESSES] {
        self.detour()
            .map_or([0; DETOUR_ADDRESSES], Detour::addresses)
    }

    /// Returns the number of bytes that are not executed in place.
    fn displaces(&self) -> usize {
        match self {
            Self::Waiting(detour, _)
            | Self::Placed(detour, _)
            | Self::Leaving(detour, _)
            | Self::Restored(detour) => detour.displaced(),
            Self::Unknown | Self::Impossible | Self::Ready(_) => 0,
        }
    }

    pub(crate) fn take(&mut self) -> Self {
        core::mem::replace(self, Self::Unknown)
    }
}

impl PointEntry {
    /// Returns true if the probes may be called by a jump.
    pub(crate) fn may_jump(&self, locked: &Locked) -> bool {
        let mut probes = self.point.probes.iter(locked);
        self.has_enabled(locked) && probes.all(|probe| probe.fault_handler().is_none())
    }

    /// Returns true if a probe has a post-handler.
    pub(crate) fn is_posting(&self) -> bool {
        self.point.has_post.load() != 0
    }

    /// Returns true if the detour, if there is one, calls the kinds of handlers that the probes
    /// have.
    pub(crate) fn fits(&self) -> bool {
        let detour = self.jump.detour();
        detour.is_none_or(|detour| self.suits(detour))
    }

    /// Returns true if a detour calls the kinds of handlers that the probes have.
    pub(crate) fn suits(&self, detour: &Detour) -> bool {
        (detour.kind() != Kind::Before) == self.is_posting()
    }

    pub(crate) fn set_optimized(&self, on: bool, locked: &Locked) {
        for probe in self.point.probes.iter(locked) {
            let flags = probe.flags() & !flags::OPTIMIZED;
            probe.set_flags(if on { flags | flags::OPTIMIZED } else { flags });
        }
    }

    /// Makes hits of the breakpoint execute the instruction without the detour.
    fn unpublish(&mut self, detour: Detour, locked: &Locked) {
        self.point.set_detour(None);
        self.set_optimized(false, locked);
        self.jump = Jump::Ready(detour);
    }

    /// Returns true if the jump must be removed before this probe is registered.
    fn is_disturbed(&self, probe: Kprobe<'_>) -> bool {
        let covered = self.jump.displaces();
        if self.point.address != probe.address() {
            return self.point.address.saturating_add(covered) > probe.address();
        }
        let kind = self.jump.detour().map(Detour::kind);
        let is_before = kind == Some(Kind::Before);
        let is_more = probe.has_post() && is_before;
        // The first probe after the last was unregistered.
        let is_less = self.point.probes.is_empty()
            && (!probe.is_enabled() || !probe.has_post() && !is_before);
        covered != 0 && (is_more || is_less || probe.fault_handler().is_some())
    }
}

impl Engine {
    /// Replaces the engine's breakpoints and jumps in code that was read at `start` by the original
    /// bytes.
    pub(crate) fn restore(&self, start: usize, bytes: &mut [u8]) {
        let end = start.saturating_add(bytes.len());
        let mut from = start.saturating_sub(MAX_DISPLACED);
        while let Some(address) = self.next_point(from).filter(|at| *at < end) {
            from = address.wrapping_add(1);
            let Some(entry) = self.points.get(&address) else {
                continue;
            };
            for (at, byte) in (address..).zip(entry.replaced()) {
                let offset = at.checked_sub(start);
                if let Some(to) = offset.and_then(|offset| bytes.get_mut(offset)) {
                    *to = *byte;
                }
            }
        }
    }

    /// Makes the worker look for points to optimize.
    pub(crate) fn want_jumps(&mut self) {
        if self.enabled && self.optimises && !self.points.is_empty() {
            self.jumps_due = true;
            optimizer_work::call_soon();
        }
    }

    /// Removes the jumps at these addresses, and cancels those that wait to be placed. Hits use
    /// breakpoints afterwards. A jump that something else has changed stays.
    pub(crate) fn leave(
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
            match entry.jump.take() {
                Jump::Placed(detour, site) => match site.stop(text) {
                    Ok(site) => {
                        entry.jump = Jump::Leaving(detour, site);
                        any = true;
                    }
                    Err(site) => {
                        entry.jump = Jump::Placed(detour, site);
                        optimizer_work::keep();
                        if !core::mem::replace(&mut entry.told, true) {
                            pr_warn!("somebody has changed the jump at {}\n", Shown(address));
                        }
                    }
                },
                Jump::Waiting(detour, _) => {
                    entry.unpublish(detour, locked);
                    self.detours = self.detours.saturating_sub(1);
                }
                other => entry.jump = other,
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
            match entry.jump.take() {
                Jump::Leaving(detour, site) => {
                    entry.breakpoint = Breakpoint::Armed(site.restore(text));
                    entry.jump = Jump::Restored(detour);
                }
                other => entry.jump = other,
            }
        }
        text.sync();
        // From here on, hits may enter the bytes that were covered.
        for address in addresses {
            let Some(entry) = self.points.get_mut(&address) else {
                continue;
            };
            match entry.jump.take() {
                Jump::Restored(detour) => {
                    entry.unpublish(detour, locked);
                    self.detours = self.detours.saturating_sub(1);
                }
                other => entry.jump = other,
            }
        }
    }

    /// Removes the jumps at these addresses that have no enabled probes, or detours that do not
    /// fit.
    pub(crate) fn leave_unwanted(
        &mut self,
        addresses: impl Iterator<Item = usize> + Clone,
        text: &mut TextLock,
        locked: &Locked,
    ) {
        if self.detours == 0 {
            return;
        }
        // Removing some does not change which of the others are unwanted.
        let mut list = core::mem::take(&mut self.leaving);
        list.clear();
        for address in addresses {
            let entry = self.points.get(&address);
            let unwanted = entry.is_some_and(|entry| {
                entry.jump.displaces() != 0
                    && !(entry.has_enabled(locked) && entry.fits())
                    && !entry.may_idle()
            });
            if !unwanted {
                continue;
            }
            if list.push_within_capacity(address).is_err() {
                // The list is full: remove these first.
                self.leave(list.iter().copied(), text, locked);
                list.clear();
                if list.push_within_capacity(address).is_err() {
                    self.leave(core::iter::once(address), text, locked);
                }
            }
        }
        self.leave(list.iter().copied(), text, locked);
        self.leaving = list;
    }

    /// Removes all jumps.
    pub(crate) fn leave_all(&mut self, text: &mut TextLock, locked: &Locked) {
        let mut from = 0;
        while self.detours != 0 {
            let mut list = [0; AT_ONCE];
            let mut len = 0;
            while let (Some(to), Some(address)) = (list.get_mut(len), self.next_point(from)) {
                from = address.wrapping_add(1);
                let entry = self.points.get(&address);
                if entry.is_some_and(|entry| entry.jump.displaces() != 0) {
                    *to = address;
                    len += 1;
                }
            }
            if len == 0 {
                break;
            }
            let list = list.get(..len).unwrap_or(&[]);
            self.leave(list.iter().copied(), text, locked);
        }
    }

    /// Removes the jumps that these probes do not allow: jumps that cover a probe, and jumps at a
    /// probe's address whose detour is not enough for it.
    ///
    /// Errors: -ENOMEM; -EILSEQ if a debugger has changed one.
    pub(crate) fn leave_disturbed(
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
            self.leave(list.iter().copied(), &mut text, locked);
        }
        match list.iter().any(|at| self.is_jumped(*at)) {
            true => Err(Error::Debugged),
            false => Ok(()),
        }
    }

    /// Returns true if a jump is at this address.
    pub(crate) fn is_jumped(&self, address: usize) -> bool {
        let entry = self.points.get(&address);
        entry.is_some_and(|entry| matches!(entry.jump, Jump::Placed(..)))
    }

    /// Forgets the jump of a point before its code is freed.
    pub(crate) fn abandon_jump(&mut self, entry: &mut PointEntry) {
        if entry.jump.displaces() != 0 {
            self.detours = self.detours.saturating_sub(1);
        }
        entry.jump = match entry.jump.take() {
            Jump::Waiting(detour, _) | Jump::Placed(detour, _) => Jump::Ready(detour),
            other => other,
        };
    }

    /// Switches optimization on, which places jumps soon, or off, which removes all jumps.
    pub(crate) fn set_optimises(&mut self, on: bool, locked: &Locked) {
        self.optimises = on;
        match on {
            true => self.want_jumps(),
            false => self.leave_all(&mut TextLock::new(), locked),
        }
    }
}
