// SPDX-License-Identifier: GPL-2.0

//! Jumps in the place of breakpoints.
//!
//! A point's breakpoint comes first. Then:
//!
//! 1. `displace.rs` finds that a jump may stand there. A detour is made, and hits of the breakpoint go on in its copies
//!    of the instructions ([`Jump::Waiting`]): nobody enters what the jump is going to cover.
//! 2. After a grace period of RCU tasks, for which nobody but the worker waits, and without a lock, nobody is there.
//! 3. If nothing has changed meanwhile, the jump is put there ([`Jump::Placed`]).
//!
//! It is taken away at once, before a call returns, when something comes for which it must not be there: a probe in what it
//! covers, enabled or not, a handler for after the instruction or for faults, or nothing any more that is to be called. Then
//! the detour is kept, for the next time ([`Jump::Ready`]).
//!
//! Contexts: process, sleeps; with the engine's mutex. Locks inside of it as in `engine.rs`.
#![deny(unsafe_code)]

use ferro_core::insn::jump::MAX_DISPLACED;
use ferro_sys::code::jump_site::jump_all;
use ferro_sys::code::jump_site::JumpedSite;
use ferro_sys::code::jump_site::StoppedSite;
use ferro_sys::code::text::TextLock;
use kernel::prelude::*;

use crate::engine::Engine;
use crate::error::Error;
use crate::point_entry::find_by;
use crate::point_entry::Breakpoint;
use crate::point_entry::PointEntry;
use crate::raw::detour::Detour;
use crate::raw::detour::Since;
use crate::raw::detour::Waited;
use crate::raw::kprobe::flags;
use crate::raw::kprobe::Kprobe;
use crate::raw::mutex::Locked;
use crate::raw::optimiser;

/// How many jumps are made, or put there, before others get the engine's mutex and `text_mutex`.
const AT_ONCE: usize = 64;
/// How many bytes a jump may displace: its own, and the rest of an instruction that starts in the last of them.
const MOST_DISPLACED: usize = MAX_DISPLACED;

/// How far a point is with its jump.
pub(crate) enum Jump {
    /// Nobody has looked whether there can be one.
    Unknown,
    /// There cannot.
    Impossible,
    /// There could; nobody comes to the detour.
    Ready(Detour),
    /// Hits of the breakpoint go on in the detour's copies.
    Waiting(Detour, Since),
    /// The jump is there.
    Placed(Detour, JumpedSite),
    /// A breakpoint is in the place of its first byte. Only while `text_mutex` is held.
    Leaving(Detour, StoppedSite),
    /// What it covered is there again, but not every CPU has been told. Only while `text_mutex` is held.
    Restored(Detour),
}

impl Jump {
    fn detour(&self) -> Option<&Detour> {
        match self {
            Self::Unknown | Self::Impossible => None,
            Self::Ready(detour)
            | Self::Waiting(detour, _)
            | Self::Placed(detour, _)
            | Self::Leaving(detour, _)
            | Self::Restored(detour) => Some(detour),
        }
    }

    /// Where the detour's copies are, or 0.
    pub(crate) fn copies(&self) -> usize {
        self.detour().map_or(0, Detour::copies)
    }

    /// How many bytes are not executed where they are.
    fn displaces(&self) -> usize {
        match self {
            Self::Waiting(detour, _)
            | Self::Placed(detour, _)
            | Self::Leaving(detour, _)
            | Self::Restored(detour) => detour.displaced(),
            Self::Unknown | Self::Impossible | Self::Ready(_) => 0,
        }
    }

    fn take(&mut self) -> Self {
        core::mem::replace(self, Self::Unknown)
    }
}

impl PointEntry {
    /// Whether its probes may be called by a jump.
    fn may_jump(&self, locked: &Locked) -> bool {
        let mut probes = self.point.probes.iter(locked);
        self.has_enabled(locked) && probes.all(is_simple)
    }

    fn set_optimized(&self, on: bool, locked: &Locked) {
        for probe in self.point.probes.iter(locked) {
            let flags = probe.flags() & !flags::OPTIMIZED;
            probe.set_flags(if on { flags | flags::OPTIMIZED } else { flags });
        }
    }

    /// Has hits of the breakpoint execute the instruction as if there were no detour.
    fn unpublish(&mut self, detour: Detour, locked: &Locked) {
        self.point.detour.store(0);
        self.set_optimized(false, locked);
        self.jump = Jump::Ready(detour);
    }
}

/// Whether a probe wants to be called before the instruction only.
fn is_simple(probe: Kprobe<'_>) -> bool {
    !probe.has_post() && probe.fault_handler().is_none()
}

impl Engine {
    /// Puts into code that was read at `start` what is there without probes.
    pub(crate) fn restore(&self, start: usize, bytes: &mut [u8]) {
        let end = start.saturating_add(bytes.len());
        let mut from = start.saturating_sub(MOST_DISPLACED);
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

    /// Has the worker look whether there is something to do.
    pub(crate) fn want_jumps(&mut self) {
        if self.enabled && self.optimises && !self.points.is_empty() {
            self.jumps_due = true;
            optimiser::call_soon();
        }
    }

    /// Whether another point is among `len` bytes from an address on.
    fn has_neighbour(&self, address: usize, len: usize) -> bool {
        let next = self.next_point(address.wrapping_add(1));
        next.is_some_and(|next| next < address.saturating_add(len))
    }

    /// Makes some detours, and has hits use them. Whether it has, and whether there may be more.
    pub(crate) fn prepare_jumps(&mut self, locked: &Locked) -> (bool, bool) {
        if !self.jumps_due || !self.enabled || !self.optimises {
            return (false, false);
        }
        let Ok(mut wanted) = KVVec::with_capacity(AT_ONCE, GFP_KERNEL) else {
            return (false, false);
        };
        for (address, entry) in self.points.iter() {
            let is_open = matches!(entry.jump, Jump::Unknown | Jump::Ready(_))
                && matches!(entry.breakpoint, Breakpoint::Armed(_))
                && entry.may_jump(locked);
            // One that has a neighbour waits for that to go.
            let len = entry.jump.detour().map_or(1, Detour::displaced);
            if is_open
                && !self.has_neighbour(*address, len)
                && wanted.push_within_capacity(*address).is_err()
            {
                break;
            }
        }
        let more = wanted.len() == wanted.capacity();
        self.jumps_due = more;
        let mut made = false;
        for address in wanted.iter() {
            self.make_detour(*address);
            made |= self.publish_detour(*address, locked).is_some();
        }
        (made, more)
    }

    /// Makes a point's detour, if it has none and there can be one.
    fn make_detour(&mut self, address: usize) {
        let unknown = |entry: &&KBox<PointEntry>| matches!(entry.jump, Jump::Unknown);
        if self.points.get(&address).filter(unknown).is_none() {
            return;
        }
        let displaced = self.displaceable(address);
        let Some(entry) = self.points.get_mut(&address) else {
            return;
        };
        let mut detour = displaced.and_then(|d| Detour::new(&entry.point, &d));
        let listed = detour
            .as_mut()
            .filter(|_| self.maps.copies.reserve(1).is_ok());
        let listed = listed.and_then(|detour| {
            detour.write(&mut TextLock::new()).ok()?;
            find_by(&mut self.maps.copies, &entry.point, &[detour.copies()]).ok()
        });
        entry.jump = match (listed, detour) {
            (Some(()), Some(detour)) => Jump::Ready(detour),
            _ => Jump::Impossible,
        };
    }

    fn publish_detour(&mut self, address: usize, locked: &Locked) -> Option<()> {
        let len = self.points.get(&address)?.jump.detour()?.displaced();
        if self.has_neighbour(address, len) {
            return None;
        }
        let entry = self.points.get_mut(&address)?;
        match entry.jump.take() {
            Jump::Ready(detour) => {
                let since = detour.publish(&entry.point);
                entry.jump = Jump::Waiting(detour, since);
                entry.set_optimized(true, locked);
                self.detours = self.detours.saturating_add(1);
                Some(())
            }
            other => {
                entry.jump = other;
                None
            }
        }
    }

    /// Puts some of the jumps there for which the wait was long enough. Whether there may be more.
    pub(crate) fn place_jumps(&mut self, waited: &Waited, locked: &Locked) -> bool {
        let mut left = AT_ONCE;
        let mut text = TextLock::new();
        let detours = &mut self.detours;
        jump_all(&mut text, |batch| {
            for entry in self.points.values_mut() {
                let is_due =
                    matches!(&entry.jump, Jump::Waiting(_, since) if waited.covers(*since));
                if !is_due || left == 0 {
                    continue;
                }
                left -= 1;
                let now = core::mem::replace(&mut entry.breakpoint, Breakpoint::Jumped);
                (entry.breakpoint, entry.jump) = match (now, entry.jump.take()) {
                    (Breakpoint::Armed(site), Jump::Waiting(detour, since)) => {
                        match detour.enter(site, since, waited, batch) {
                            Ok(site) => (Breakpoint::Jumped, Jump::Placed(detour, site)),
                            // The code is about to go.
                            Err(site) => {
                                entry.point.detour.store(0);
                                entry.set_optimized(false, locked);
                                *detours = detours.saturating_sub(1);
                                (Breakpoint::Armed(site), Jump::Ready(detour))
                            }
                        }
                    }
                    unchanged => unchanged,
                };
            }
        });
        left == 0
    }

    /// Takes the jumps at these addresses away, whose hits come to breakpoints then, and ends the wait for those to come.
    fn leave(
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
                Jump::Placed(detour, site) => {
                    entry.jump = Jump::Leaving(detour, site.stop(text));
                    any = true;
                }
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
        // Hits may come to what was covered from here on.
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

    /// Takes those of the jumps at these addresses away that have nothing to call any more.
    pub(crate) fn leave_unwanted(
        &mut self,
        addresses: impl Iterator<Item = usize> + Clone,
        text: &mut TextLock,
        locked: &Locked,
    ) {
        if self.detours == 0 {
            return;
        }
        // Which they are does not change by their going.
        let mut list = core::mem::take(&mut self.leaving);
        list.clear();
        for address in addresses {
            let entry = self.points.get(&address);
            let unwanted = entry.is_some_and(|e| e.jump.displaces() != 0 && !e.has_enabled(locked));
            if !unwanted {
                continue;
            }
            if list.push_within_capacity(address).is_err() {
                // No room for more of a batch: these go first.
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

    /// Takes all jumps away.
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

    /// Takes the jumps away that must not be there when these probes are: those that cover one of them, and those at the same
    /// address, if they want more than a jump can do.
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
            let mut from = address.saturating_sub(MOST_DISPLACED);
            while let Some(at) = self.next_point(from).filter(|at| *at <= address) {
                from = at.wrapping_add(1);
                let entry = self.points.get(&at);
                let covered = entry.map_or(0, |entry| entry.jump.displaces());
                let disturbed = match at == address {
                    true => covered != 0 && !is_simple(*probe),
                    false => at.saturating_add(covered) > address,
                };
                if disturbed {
                    list.push(at, GFP_KERNEL)?;
                }
            }
        }
        if !list.is_empty() {
            let mut text = TextLock::new();
            self.leave(list.iter().copied(), &mut text, locked);
        }
        Ok(())
    }

    /// Forgets the jump of a point whose code goes.
    pub(crate) fn abandon_jump(&mut self, entry: &mut PointEntry) {
        if entry.jump.displaces() != 0 {
            self.detours = self.detours.saturating_sub(1);
        }
        entry.jump = match entry.jump.take() {
            Jump::Waiting(detour, _) | Jump::Placed(detour, _) => Jump::Ready(detour),
            other => other,
        };
    }

    /// Has jumps put there soon, or takes all away.
    pub(crate) fn set_optimises(&mut self, on: bool, locked: &Locked) {
        self.optimises = on;
        match on {
            true => self.want_jumps(),
            false => self.leave_all(&mut TextLock::new(), locked),
        }
    }
}
