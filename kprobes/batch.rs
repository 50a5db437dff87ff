// SPDX-License-Identifier: GPL-2.0

//! Registration of probes, all or none, and unregistration.
//!
//! A batch is checked and prepared as a whole before any of its probes can be hit. The batch then
//! takes one round of code patching with one synchronisation of all CPUs. Unregistering takes one
//! grace period as well.
//!
//! Contexts: process, sleeps; with the engine's mutex.
#![deny(unsafe_code)]

use ferro_core::insn::Insn;
use ferro_sys::code::text::TextLock;
use kernel::prelude::*;
use kernel::rbtree::RBTreeNode;
use kernel::sync::Arc;

use crate::error::Error;
use crate::ftrace_probes::SITE_LEN;
use crate::hit::Hits;
use crate::insn_copy::InsnCopy;
use crate::optprobe::Optprobe;
use crate::probe_address::Decoder;
use crate::probe_address::Permit;
use crate::raw::grace_period::GracePeriod;
use crate::raw::insn_stub;
use crate::raw::kprobe::flags;
use crate::raw::kprobe::FaultHandler;
use crate::raw::kprobe::Kprobe;
use crate::raw::mutex::Locked;
use crate::raw::trap_hooks::breakpoint_at;
use crate::registered_point::publish;
use crate::registered_point::write;
use crate::registered_point::Breakpoint;
use crate::registered_point::RegisteredPoint;
use crate::registered_point::SLOT_ADDRESSES;
use crate::registry::State;

/// An instruction, and the instruction after it.
type InsnPair = (Insn, Option<Insn>);

impl State {
    pub(crate) fn register(
        &mut self,
        probes: &[Kprobe<'_>],
        permits: &[Permit],
        fault: FaultHandler,
        locked: &Locked,
    ) -> Result<(), (usize, Error)> {
        let instructions = self.instructions(permits)?;
        let (mut at, mut admitted) = (0, 0);
        let mut result = self.reserve_sites(probes.len());
        if result.is_ok() {
            result = self.maps.reserve(probes.len());
        }
        for (i, ((probe, permit), read)) in
            probes.iter().zip(permits).zip(&instructions).enumerate()
        {
            if result.is_err() {
                break;
            }
            at = i;
            result = self.admit(*probe, permit, read.as_ref()).and_then(|flags| {
                admitted += 1;
                let prepared = probe.prepare(permit.address, flags, fault);
                prepared.then_some(()).ok_or(Error::Registered)
            });
        }
        if let Err(error) = result {
            self.withdraw(probes.get(..admitted).unwrap_or(&[]));
            return Err((at, error));
        }
        if let Err(error) = self.unoptimize_disturbed(probes, locked) {
            self.withdraw(probes);
            // The jumps that were removed may return.
            self.kick_optimizer();
            return Err((0, error));
        }
        if let Err((at, error)) = self.commit(probes, locked) {
            self.unregister(probes.iter().copied(), locked);
            // Some probes may have been hit already.
            let over = GracePeriod::wait();
            probes.iter().for_each(|probe| probe.clear_list(&over));
            return Err((at, error));
        }
        self.kick_optimizer();
        Ok(())
    }

    /// Returns the instructions at the permits' addresses; `None` where a point exists already.
    ///
    /// Errors: the first address of the batch without a probeable instruction, and the reason.
    fn instructions(&self, permits: &[Permit]) -> Result<KVVec<Option<InsnPair>>, (usize, Error)> {
        let mut all = KVVec::new();
        let mut order =
            KVVec::with_capacity(permits.len(), GFP_KERNEL).map_err(|e| (0, e.into()))?;
        let mut text = TextLock::new();
        for (i, permit) in permits.iter().enumerate() {
            // Initialisation code may have been freed since: `kill()` handles points only.
            if !text.is_there(permit.address) {
                return Err((i, Error::Gone));
            }
            if !permit.is_ftrace && self.points.get(&permit.address).is_none() {
                order
                    .push((permit, i), GFP_KERNEL)
                    .map_err(|e| (i, e.into()))?;
            }
        }
        drop(text);
        all.resize(permits.len(), None, GFP_KERNEL)
            .map_err(|e| (0, e.into()))?;
        // Sorted, so that the decoder reads each function once for all of its probes.
        order.sort_unstable_by_key(|(permit, _)| permit.address);
        let mut decoder = Decoder::new(|start, bytes: &mut [u8]| self.restore(start, bytes));
        let mut refused: Option<(usize, Error)> = None;
        for (permit, i) in order.iter().copied() {
            match (decoder.instructions(permit), all.get_mut(i)) {
                (Ok(read), Some(to)) => *to = Some(read),
                (Err(error), _) if refused.is_none_or(|(first, _)| i < first) => {
                    refused = Some((i, error));
                }
                _ => (),
            }
        }
        refused.map_or(Ok(all), Err)
    }

    /// Adds a probe to the registry, still invisible to hits. Returns its flags.
    fn admit(
        &mut self,
        probe: Kprobe<'_>,
        permit: &Permit,
        read: Option<&InsnPair>,
    ) -> Result<u32, Error> {
        if self.probes.get(&probe.id()).is_some() {
            return Err(Error::Registered);
        }
        probe.note_post();
        let mut flags = probe.flags() & flags::DISABLED;
        if permit.at_entry {
            flags |= flags::ON_FUNC_ENTRY;
        }
        if permit.is_ftrace {
            flags |= flags::FTRACE;
        }
        let made = self.points.get(&permit.address).is_none();
        if made {
            self.make_point(permit, read)?;
        }
        let added = self.add_probe(probe, permit.address);
        if added.is_err() && made {
            self.points.remove(&permit.address);
        }
        added.map(|()| flags)
    }

    fn make_point(&mut self, permit: &Permit, read: Option<&InsnPair>) -> Result<(), Error> {
        let ((point, code), breakpoint) = match read {
            None => (
                InsnCopy::ftrace_point(permit.address, SITE_LEN),
                Breakpoint::None,
            ),
            Some((insn, next)) => {
                let made = InsnCopy::breakpoint_point(permit.address, insn, next.as_ref())?;
                let site = breakpoint_at::<Hits>(permit.text, made.1.original);
                (made, Breakpoint::Disarmed(site))
            }
        };
        let entry = RegisteredPoint {
            point: Arc::new(point, GFP_KERNEL)?,
            code,
            breakpoint,
            optprobe: Optprobe::Unknown,
            spare: None,
            no_post_detour: false,
            idle: false,
            warned: false,
            ftrace_mode: None,
            fresh: true,
            removed: [const { None }; 1 + SLOT_ADDRESSES],
            next: None,
        };
        let entry = KBox::new(entry, GFP_KERNEL)?;
        let node =
            RBTreeNode::new(permit.address, entry, GFP_KERNEL).map_err(|_| Error::NoMemory)?;
        self.points.insert(node);
        Ok(())
    }

    /// Adds a probe to the point at an address, and allocates the memory that it needs there.
    fn add_probe(&mut self, probe: Kprobe<'_>, address: usize) -> Result<(), Error> {
        let entry = self
            .points
            .get_mut(&address)
            .ok_or(Error::NotAnInstruction)?;
        if probe.has_post() {
            let point = entry.point.clone();
            entry.code.make_post(&point)?;
        }
        let node = RBTreeNode::new(probe.id(), entry.point.clone(), GFP_KERNEL)
            .map_err(|_| Error::NoMemory)?;
        self.probes.insert(node);
        Ok(())
    }

    /// Undoes [`State::admit`].
    fn withdraw(&mut self, probes: &[Kprobe<'_>]) {
        for probe in probes {
            let point = self.probes.remove(&probe.id());
            let Some(address) = point.map(|p| p.address) else {
                continue;
            };
            if self.points.get(&address).is_some_and(|entry| entry.fresh) {
                self.points.remove(&address);
            }
        }
    }

    /// Writes the code, publishes the probes in the lookup maps, and arms the breakpoints.
    fn commit(&mut self, probes: &[Kprobe<'_>], locked: &Locked) -> Result<(), (usize, Error)> {
        let mut text = TextLock::new();
        let mut written = false;
        for (i, probe) in probes.iter().enumerate() {
            if let Some(entry) = self.points.get_mut(&probe.address()) {
                written |= write(entry, *probe, &mut text).map_err(|e| (i, e))?;
            }
        }
        // The synchronisation after arming is too late: a breakpoint that is armed already leads to
        // this code as soon as the code is published.
        if written && insn_stub::returns_early() {
            text.sync();
        }
        for (i, probe) in probes.iter().enumerate() {
            if let Some(entry) = self.points.get_mut(&probe.address()) {
                publish(&mut self.maps, entry, *probe, &mut text, locked).map_err(|e| (i, e))?;
            }
        }
        let mut changed = false;
        for (i, probe) in probes.iter().enumerate() {
            if let Some(entry) = self.points.get_mut(&probe.address()) {
                changed |= entry
                    .arm(&mut text, self.enabled, locked)
                    .map_err(|e| (i, e))?;
            }
        }
        if changed {
            text.sync();
        }
        drop(text);
        self.update_ftrace(probes.iter().map(|p| p.address()), locked)
            .map_err(|e| (0, e))
    }

    pub(crate) fn unregister<'a>(
        &mut self,
        probes: impl Iterator<Item = Kprobe<'a>> + Clone,
        locked: &Locked,
    ) {
        for probe in probes.clone() {
            match self.probes.remove(&probe.id()) {
                // The probe is in this batch twice: `disarm_unneeded()` below still handles its
                // point.
                None if self.is_being_emptied(probe.address()) => (),
                None => probe.set_address(0),
                Some(point) => {
                    point.probes.remove(probe, locked);
                    let has_post = point.probes.iter(locked).any(Kprobe::has_post);
                    point.has_post.store(usize::from(has_post));
                    probe.set_flags(probe.flags() & !flags::OPTIMIZED);
                }
            }
        }
        self.disarm_unneeded(probes.clone(), locked);
        let mut any_gone = false;
        for probe in probes {
            any_gone |= probe.flags() & flags::GONE != 0;
            if !self.retire(probe.address()) {
                self.mark_idle(probe.address());
            }
        }
        if any_gone {
            self.retire_gone();
        }
        self.schedule_reap();
        self.schedule_idle_work();
        // A probe may have prevented jumps at its neighbours.
        self.kick_optimizer();
    }
}
