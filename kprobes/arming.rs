// SPDX-License-Identifier: GPL-2.0

//! Arming and disarming of breakpoints and ftrace sites, to match the state of their probes.
//!
//! Contexts: process, sleeps; with the engine's mutex.
#![deny(unsafe_code)]

use ferro_sys::code::text::TextLock;
use kernel::prelude::*;

use crate::error::Error;
use crate::ftrace_probes::FtraceMode;
use crate::raw::kprobe::flags;
use crate::raw::kprobe::Kprobe;
use crate::raw::mutex::Locked;
use crate::registry::State;

impl State {
    pub(crate) fn enable(
        &mut self,
        probe: Kprobe<'_>,
        on: bool,
        locked: &Locked,
    ) -> Result<(), Error> {
        let point = self.probes.get(&probe.id()).ok_or(Error::NotRegistered)?;
        let point = point.clone();
        let flags = probe.flags();
        if on && flags & flags::GONE != 0 {
            return Err(Error::NotRegistered);
        }
        if on {
            self.reserve_sites(1)?;
        }
        let new = if on {
            flags & !flags::DISABLED
        } else {
            flags | flags::DISABLED
        };
        probe.set_flags(new);
        point.probes.update_single(locked);
        let result = self.rearm(probe.address(), locked);
        self.schedule_reap();
        self.kick_optimizer();
        result.inspect_err(|_| {
            probe.set_flags(flags);
            point.probes.update_single(locked);
        })
    }

    pub(crate) fn enable_all(&mut self, on: bool, locked: &Locked) -> Result<(), Error> {
        self.enabled = on;
        let mut result = Ok(());
        let mut text = TextLock::new();
        self.unoptimize_all(&mut text, locked);
        for entry in self.points.values_mut() {
            // An error at one point does not stop the others.
            if let Err(error) = entry.arm(&mut text, on, locked) {
                result = Err(error);
            }
        }
        text.sync();
        drop(text);
        let mut from = 0;
        while let Some(address) = self.next_point(from) {
            from = address.wrapping_add(1);
            result = result.and(self.update_ftrace(core::iter::once(address), locked));
        }
        self.schedule_reap();
        self.kick_optimizer();
        result
    }

    /// Disarms the breakpoints and ftrace sites at the addresses of these probes that no enabled
    /// probe needs. Some of the probes may already be unregistered.
    pub(crate) fn disarm_unneeded<'a>(
        &mut self,
        probes: impl Iterator<Item = Kprobe<'a>> + Clone,
        locked: &Locked,
    ) {
        let mut text = TextLock::new();
        let mut changed = false;
        self.unoptimize_unwanted(probes.clone().map(|p| p.address()), &mut text, locked);
        for probe in probes.clone() {
            if let Some(entry) = self.points.get_mut(&probe.address()) {
                // Code that was freed has no breakpoint either.
                changed |= entry.arm(&mut text, self.enabled, locked).unwrap_or(false);
            }
        }
        if changed {
            text.sync();
        }
        drop(text);
        if self.called_sites != 0 {
            // If ftrace cannot remove a site, it has already given up on the site.
            let _ = self.update_ftrace(probes.map(|p| p.address()), locked);
        }
    }

    /// Arms or disarms the breakpoint of one point.
    fn rearm(&mut self, address: usize, locked: &Locked) -> Result<(), Error> {
        if self.points.get(&address).is_some() {
            let mut text = TextLock::new();
            self.unoptimize_unwanted(core::iter::once(address), &mut text, locked);
            let entry = self.points.get_mut(&address).ok_or(Error::Gone)?;
            if entry.arm(&mut text, self.enabled, locked)? {
                text.sync();
            }
        }
        self.update_ftrace(core::iter::once(address), locked)
    }

    /// Adds the points at these addresses to the ftrace ops, or removes them, as their probes need.
    pub(crate) fn update_ftrace(
        &mut self,
        addresses: impl Iterator<Item = usize> + Clone,
        locked: &Locked,
    ) -> Result<(), Error> {
        let mut result = Ok(());
        // Remove first, in both modes: a site that changes its mode cannot be in both ops.
        for remove in [true, false] {
            for mode in FtraceMode::ALL {
                result =
                    result.and(self.update_ftrace_mode(addresses.clone(), mode, remove, locked));
            }
        }
        result
    }

    fn update_ftrace_mode(
        &mut self,
        addresses: impl Iterator<Item = usize> + Clone,
        mode: FtraceMode,
        remove: bool,
        locked: &Locked,
    ) -> Result<(), Error> {
        self.site_list.clear();
        let to = (!remove).then_some(mode);
        for address in addresses {
            let Some(entry) = self.points.get_mut(&address) else {
                continue;
            };
            let (is, wanted) = (
                entry.ftrace_mode == Some(mode),
                entry.wanted_call(self.enabled, locked) == Some(mode),
            );
            let due = if remove {
                is && !wanted
            } else {
                wanted && entry.ftrace_mode.is_none()
            };
            // `reserve_sites()` has reserved the room.
            if due && self.site_list.push_within_capacity(address).is_ok() {
                entry.ftrace_mode = to;
            }
        }
        let done = match remove {
            true => self.ftrace.remove(mode, &self.site_list),
            false => self.ftrace.add(mode, &self.site_list, |site| {
                self.points.get(&site).map(|entry| &entry.point)
            }),
        };
        if let Err(error) = done {
            let back = if remove { Some(mode) } else { None };
            for address in self.site_list.iter() {
                if let Some(entry) = self.points.get_mut(address) {
                    entry.ftrace_mode = back;
                }
            }
            return Err(Error::Ftrace(error));
        }
        self.called_sites = match remove {
            true => self.called_sites.saturating_sub(self.site_list.len()),
            false => self.called_sites.saturating_add(self.site_list.len()),
        };
        Ok(())
    }

    /// Makes room for the addresses of all sites that are armed and `more`.
    pub(crate) fn reserve_sites(&mut self, more: usize) -> Result<(), Error> {
        self.site_list.clear();
        Ok(self
            .site_list
            .reserve(self.called_sites.saturating_add(more), GFP_KERNEL)?)
    }
}
