// SPDX-License-Identifier: GPL-2.0

//! Jumps in the place of breakpoints.
//!
//! A point's breakpoint comes first. Then:
//!
//! 1. `displace.rs` finds that a jump may stand there. A detour is made, every CPU is told of its code, and hits of the breakpoint go
//!    on in its copies of the instructions ([`Jump::Waiting`]): nobody enters what the jump is going to cover.
//! 2. After a grace period of RCU tasks, for which nobody but the worker waits, and without a lock, nobody is there.
//! 3. If nothing has changed meanwhile, the jump is put there ([`Jump::Placed`]).
//!
//! It is taken away at once, before a call returns, when something comes for which it must not be there: a probe in what it
//! covers, enabled or not, a handler for faults, the first handler for after the instruction, for which the detour has to be another
//! one, or nothing any more that is enabled. Then the detour is kept, for the next time ([`Jump::Ready`]).
//!
//! When the last probe goes, the jump stays until the worker comes by, which takes many away at once: `idle.rs`.
//!
//! A debugger that has written into a jump puts back what was there then: such a jump stays, and so does its point.
//!
//! Contexts: process, sleeps; with the engine's mutex. Locks inside of it as in `engine.rs`.
#![deny(unsafe_code)]

use ferro_core::insn::jump::Displaced;
use ferro_core::insn::jump::MAX_DISPLACED;
use ferro_sys::code::jump_site::jump_all;
use ferro_sys::code::jump_site::JumpedSite;
use ferro_sys::code::jump_site::StoppedSite;
use ferro_sys::code::symbols::Shown;
use ferro_sys::code::text::TextLock;
use kernel::prelude::*;

use crate::engine::Engine;
use crate::error::Error;
use crate::point_entry::find_by;
use crate::point_entry::Breakpoint;
use crate::point_entry::PointEntry;
use crate::raw::detour::Detour;
use crate::raw::detour::Kind;
use crate::raw::detour::Since;
use crate::raw::detour::Waited;
use crate::raw::kprobe::flags;
use crate::raw::kprobe::Kprobe;
use crate::raw::mutex::Locked;
use crate::raw::optimiser;

/// How many points are looked at, or jumps put there, before others get the engine's mutex and `text_mutex`. No more than one
/// function is analysed meanwhile.
pub(crate) const AT_ONCE: usize = 64;
/// How many bytes a jump may displace: its own, and the rest of an instruction that starts in the last of them.
const MOST_DISPLACED: usize = MAX_DISPLACED;

/// How many detours the CPUs are told of at once. More would keep hits of the first from them for longer.
const READY: usize = 16;

/// How far `registry::optimise()` is with all points.
pub(crate) struct Pass {
    /// From this address on it has not looked yet.
    next: usize,
    /// The addresses of points whose detours are made, and that many of them.
    ready: [usize; READY],
    count: usize,
}

impl Pass {
    fn new() -> Self {
        Self {
            next: 0,
            ready: [0; READY],
            count: 0,
        }
    }

    /// Notes one. Whether there is room for another.
    fn note(&mut self, address: usize) -> bool {
        if let Some(to) = self.ready.get_mut(self.count) {
            *to = address;
            self.count += 1;
        }
        self.count < READY
    }
}

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

    /// As [`Detour::addresses`], or 0.
    pub(crate) fn addresses(&self) -> [usize; 4] {
        self.detour().map_or([0; 4], Detour::addresses)
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
        self.has_enabled(locked) && probes.all(|probe| probe.fault_handler().is_none())
    }

    /// Whether a probe has a handler for after the instruction.
    fn is_posting(&self) -> bool {
        self.point.has_post.load() != 0
    }

    /// Whether its detour, if it has one, calls the handlers that its probes have.
    fn fits(&self) -> bool {
        let detour = self.jump.detour();
        detour.is_none_or(|detour| self.suits(detour))
    }

    /// Whether a detour calls what its handlers need.
    fn suits(&self, detour: &Detour) -> bool {
        (detour.kind() != Kind::Before) == self.is_posting()
    }

    /// Has the detour in use that fits, if there is one. There is one of each kind at most, and none goes: tasks may be in it.
    fn choose(&mut self) {
        let is_open = matches!(self.jump, Jump::Unknown | Jump::Ready(_));
        if !is_open || self.jump.detour().is_some_and(|detour| self.suits(detour)) {
            return;
        }
        let old = match self.jump.take() {
            Jump::Ready(detour) => Some(detour),
            _ => None,
        };
        (self.jump, self.spare) = match (old, self.spare.take()) {
            (old, Some(detour)) if self.suits(&detour) => (Jump::Ready(detour), old),
            (None, spare) => (Jump::Unknown, spare),
            (old, None) => (Jump::Unknown, old),
            (Some(old), spare) => (Jump::Ready(old), spare),
        };
    }

    /// Whether a detour is to be made for it, or used.
    fn wants_detour(&self, locked: &Locked) -> bool {
        matches!(self.jump, Jump::Unknown | Jump::Ready(_))
            && matches!(self.breakpoint, Breakpoint::Armed(_))
            && self.may_jump(locked)
            && !(self.never_around && self.is_posting())
    }

    fn set_optimized(&self, on: bool, locked: &Locked) {
        for probe in self.point.probes.iter(locked) {
            let flags = probe.flags() & !flags::OPTIMIZED;
            probe.set_flags(if on { flags | flags::OPTIMIZED } else { flags });
        }
    }

    /// Has hits of the breakpoint execute the instruction as if there were no detour.
    fn unpublish(&mut self, detour: Detour, locked: &Locked) {
        self.point.set_detour(None);
        self.set_optimized(false, locked);
        self.jump = Jump::Ready(detour);
    }
}

impl PointEntry {
    /// Whether its jump must not be there when this probe is.
    fn is_disturbed(&self, probe: Kprobe<'_>) -> bool {
        let covered = self.jump.displaces();
        if self.point.address != probe.address() {
            return self.point.address.saturating_add(covered) > probe.address();
        }
        let kind = self.jump.detour().map(Detour::kind);
        let is_before = kind == Some(Kind::Before);
        let is_more = probe.has_post() && is_before;
        // The first after the last has gone.
        let is_less = self.point.probes.is_empty()
            && (!probe.is_enabled() || !probe.has_post() && !is_before);
        covered != 0 && (is_more || is_less || probe.fault_handler().is_some())
    }

    /// A detour that calls the handlers which its probes have. Errors: as [`Detour::new`].
    fn detour_for(&self, displaced: Option<&Displaced>) -> Result<Detour, Error> {
        let displaced = displaced.ok_or(Error::OutOfReach)?;
        let new = |kind| Detour::new(&self.point, displaced, kind);
        if !self.is_posting() {
            return new(Kind::Before);
        }
        match new(Kind::Around) {
            Err(Error::OutOfReach) if self.point.runs_on_registers() => new(Kind::Instead),
            made => made,
        }
    }
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

    /// Goes on looking for points that can have jumps. Whether hits of more of them go on in detours now, and whether there is more to
    /// do.
    pub(crate) fn prepare_jumps(&mut self, locked: &Locked) -> (bool, bool) {
        if !self.enabled || !self.optimises {
            self.pass = None;
            return (false, false);
        }
        let mut pass = match self.pass.take() {
            None if core::mem::take(&mut self.jumps_due) => Pass::new(),
            None => return (false, false),
            Some(pass) => pass,
        };
        let mut made = false;
        let more = self.make_some(&mut pass, locked);
        if !more || pass.count == READY {
            made = self.publish_some(&mut pass, locked);
        }
        if more {
            self.pass = Some(pass);
        } else if core::mem::take(&mut self.jumps_failed) {
            self.jumps_due = true;
            optimiser::call_later();
        }
        (made, more)
    }

    /// Makes detours for some of the next points, of one function at most that has to be analysed. Whether there are more points.
    fn make_some(&mut self, pass: &mut Pass, locked: &Locked) -> bool {
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
            let is_ready = entry.is_some_and(|entry| matches!(entry.jump, Jump::Ready(_)));
            if is_ready && !pass.note(address) || analysed {
                break;
            }
        }
        true
    }

    /// Has hits of the points whose detours are made go on there. Whether there are any.
    fn publish_some(&mut self, pass: &mut Pass, locked: &Locked) -> bool {
        let count = core::mem::take(&mut pass.count);
        if count == 0 {
            return false;
        }
        let mut made = false;
        let mut text = TextLock::new();
        for address in pass.ready.iter().copied().take(count) {
            // Others have had the mutex meanwhile.
            if self.wants_detour(address, locked) {
                made |= self.publish_detour(address, &mut text, locked);
            }
        }
        made
    }

    /// Whether a detour is to be made for the point at an address, or used.
    fn wants_detour(&self, address: usize, locked: &Locked) -> bool {
        let entry = self.points.get(&address);
        let wanted = entry.filter(|entry| entry.wants_detour(locked));
        // One that has a neighbour waits for that to go.
        let len = wanted.map(|entry| entry.jump.detour().map_or(1, Detour::displaced));
        len.is_some_and(|len| !self.has_neighbour(address, len))
    }

    /// Makes a point's detour, if it has none that fits and there can be one. Whether the function had to be analysed.
    fn make_detour(&mut self, address: usize) -> bool {
        if let Some(entry) = self.points.get_mut(&address) {
            entry.choose();
        }
        self.make_first(address)
    }

    /// The same, for one that has none.
    fn make_first(&mut self, address: usize) -> bool {
        let unknown = |entry: &&KBox<PointEntry>| matches!(entry.jump, Jump::Unknown);
        if self.points.get(&address).filter(unknown).is_none() {
            return false;
        }
        let displaced = self.displaceable(address);
        let room = self.maps.copies.reserve(Jump::Unknown.addresses().len());
        let made = match self.points.get(&address) {
            Some(entry) => room
                .map_err(Error::from)
                .and_then(|()| entry.detour_for(displaced.as_ref())),
            None => return true,
        };
        let Some(entry) = self.points.get_mut(&address) else {
            return true;
        };
        match made {
            Ok(detour) => {
                // There is room.
                let _ = find_by(&mut self.maps.copies, &entry.point, &detour.addresses());
                entry.jump = Jump::Ready(detour);
            }
            Err(Error::NoMemory) => self.jumps_failed = true,
            // There is one for the other kind of handlers.
            Err(_) if displaced.is_some() && entry.is_posting() => entry.never_around = true,
            Err(_) => entry.jump = Jump::Impossible,
        }
        true
    }

    /// Has hits of a point go on in its detour, if that fits.
    fn publish_detour(&mut self, address: usize, text: &mut TextLock, locked: &Locked) -> bool {
        let Some(entry) = self.points.get_mut(&address) else {
            return false;
        };
        let fits = entry.fits();
        match entry.jump.take() {
            Jump::Ready(detour) if fits => {
                let since = detour.publish(&entry.point, text);
                entry.jump = Jump::Waiting(detour, since);
                entry.set_optimized(true, locked);
                self.detours = self.detours.saturating_add(1);
                true
            }
            other => {
                entry.jump = other;
                false
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
                if left == 0 {
                    break;
                }
                let is_due =
                    matches!(&entry.jump, Jump::Waiting(_, since) if waited.covers(*since));
                if !is_due || !matches!(entry.breakpoint, Breakpoint::Armed(_)) {
                    continue;
                }
                left -= 1;
                let now = core::mem::replace(&mut entry.breakpoint, Breakpoint::Jumped);
                (entry.breakpoint, entry.jump) = match (now, entry.jump.take()) {
                    (Breakpoint::Armed(site), Jump::Waiting(detour, since)) => {
                        match detour.enter(site, since, waited, batch) {
                            Ok(site) => (Breakpoint::Jumped, Jump::Placed(detour, site)),
                            // The code is about to go, or somebody else has written there.
                            Err(site) => {
                                entry.point.set_detour(None);
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

    /// Takes the jumps at these addresses away, whose hits come to breakpoints then, and ends the wait for those to come. One that is
    /// not what it was stays.
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
                        optimiser::keep();
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

    /// Takes those of the jumps at these addresses away that have nothing to call any more, or not what their detours call.
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
            let unwanted = entry.is_some_and(|entry| {
                entry.jump.displaces() != 0
                    && !(entry.has_enabled(locked) && entry.fits())
                    && !entry.may_idle()
            });
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
    /// address, if they want more than the detour does.
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
            let mut from = address.saturating_sub(MOST_DISPLACED);
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

    /// Whether a jump is at this address.
    pub(crate) fn is_jumped(&self, address: usize) -> bool {
        let entry = self.points.get(&address);
        entry.is_some_and(|entry| matches!(entry.jump, Jump::Placed(..)))
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
