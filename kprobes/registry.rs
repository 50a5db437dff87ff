// SPDX-License-Identifier: GPL-2.0

//! What is registered, and the batches that change it.
//!
//! A batch is checked and prepared as a whole before anything of it can be hit. Then it takes one round of writing to
//! code, with one synchronisation of all CPUs, and when probes go, one grace period.
//!
//! Contexts: process, sleeps. Locks, outermost first: the engine's mutex, CPU hotplug, jump labels, `text_mutex`.
#![deny(unsafe_code)]

use ferro_core::insn::Insn;
use ferro_sys::address_map::GracePeriod;
use ferro_sys::code::symbols::Shown;
use ferro_sys::code::text::TextLock;
use ferro_sys::kprobe::flags;
use ferro_sys::kprobe::FaultHandler;
use ferro_sys::kprobe::Kprobe;
use ferro_sys::sync::rcu_tasks;
use kernel::prelude::*;
use kernel::rbtree::RBTree;
use kernel::rbtree::RBTreeNode;
use kernel::sync::Arc;

use crate::address::Site;
use crate::error::Error;
use crate::held::publish;
use crate::held::Chain;
use crate::held::Finders;
use crate::held::Held;
use crate::held::KEYS;
use crate::point::Point;
use crate::raw::kretprobe;
use crate::raw::mutex::EngineGuard;
use crate::raw::mutex::EngineMutex;
use crate::raw::reap as grace_period;
use crate::site;
use crate::site::Kind;

/// An instruction, and the one behind it.
type Read = (Insn, Option<Insn>);

/// What is registered.
pub(crate) struct Engine {
    finders: Finders,
    /// By address.
    points: RBTree<usize, KBox<Held>>,
    /// By the address of the `struct kprobe`.
    probes: RBTree<usize, Arc<Point>>,
    /// Points whose code has gone; their probes may still be registered.
    gone: Chain,
    /// Points without probes, whose copies may still be running.
    retired: Chain,
    /// Those of them for which a grace period of RCU tasks is going on, after which [`reap`] is called.
    waiting: Chain,
    /// How many points ftrace calls us from.
    called: usize,
    /// Room for all of their addresses.
    list: KVVec<usize>,
    /// Breakpoints are there.
    enabled: bool,
}

static ENGINE: EngineMutex<Option<Engine>> = EngineMutex::new(None);

fn engine() -> EngineGuard<Option<Engine>> {
    ENGINE.lock()
}

/// Makes the engine ready. Errors: -EBUSY if it is.
pub(crate) fn start() -> Result {
    let mut engine = engine();
    if engine.is_some() {
        return Err(EBUSY);
    }
    *engine = Some(Engine {
        finders: Finders::new()?,
        points: RBTree::new(),
        probes: RBTree::new(),
        gone: Chain::new(),
        retired: Chain::new(),
        waiting: Chain::new(),
        called: 0,
        list: KVVec::new(),
        enabled: true,
    });
    Ok(())
}

/// Takes away all probes, whoever has forgotten them, and waits until nobody is in their copies.
pub(crate) fn stop() {
    let mut engine = engine();
    if let Some(engine) = engine.as_mut() {
        engine.clear();
    }
    let stopped = engine.take();
    // From here on nobody finds the engine, `reap()` neither.
    drop(engine);
    site::close();
    rcu_tasks::synchronize();
    grace_period::wait();
    if let Some(stopped) = stopped {
        drop(stopped.finders);
        let period = GracePeriod::wait();
        for points in [stopped.gone, stopped.retired, stopped.waiting] {
            points.release(&period);
        }
    }
}

/// A grace period of RCU tasks is over: nobody is in the copies of the points that have waited for it. Frees them.
pub(crate) fn reap() {
    let over = engine().as_mut().map(Engine::take_waiting);
    if let Some(over) = over {
        over.release(&GracePeriod::wait());
    }
}

/// Registers probes, all or none, with this handler for faults.
pub(crate) fn register(probes: &[Kprobe], fault: FaultHandler) -> Result<(), (usize, Error)> {
    let mut sites = KVec::with_capacity(probes.len(), GFP_KERNEL).map_err(|e| (0, e.into()))?;
    for (i, probe) in probes.iter().enumerate() {
        let site = Site::of(*probe).map_err(|e| (i, e))?;
        sites.push(site, GFP_KERNEL).map_err(|e| (i, e.into()))?;
    }
    let mut engine = engine();
    let engine = engine.as_mut().ok_or((0, Error::NotStarted))?;
    engine.register(probes, &sites, fault)
}

/// Unregisters probes. When this returns nobody is in their handlers. Those that are not registered get the address 0.
pub(crate) fn unregister(probes: impl Iterator<Item = Kprobe> + Clone) {
    unregister_with(probes, || ());
}

/// The same, and calls `before` when they are not hit any more, before it waits for those who are in the handlers.
pub(crate) fn unregister_with(probes: impl Iterator<Item = Kprobe> + Clone, before: impl FnOnce()) {
    if let Some(engine) = engine().as_mut() {
        engine.unregister(probes.clone());
    }
    before();
    GracePeriod::wait();
    for probe in probes.filter(|p| p.address() != 0) {
        probe.clear_list();
    }
}

/// Has a probe's handlers called, or called no longer.
pub(crate) fn enable(probe: Kprobe, on: bool) -> Result<(), Error> {
    let mut engine = engine();
    let engine = engine.as_mut().ok_or(Error::NotRegistered)?;
    engine.enable(probe, on)
}

/// The code for which `is_going` holds goes: its probes are gone.
pub(crate) fn kill(is_going: impl Fn(usize) -> bool) {
    if let Some(engine) = engine().as_mut() {
        engine.kill(is_going);
    }
}

/// The memory for which `is_going` holds goes: probes of which something is there have been forgotten by their client.
pub(crate) fn unregister_leaked(is_going: impl Fn(usize) -> bool) {
    let is_forgotten = |probe: &Kprobe| kretprobe::parts_of(*probe).iter().any(|at| is_going(*at));
    loop {
        let mut guard = engine();
        let Some(engine) = guard.as_mut() else {
            return;
        };
        let find = |engine: &Engine| {
            let mut points = engine.probes.values();
            points.find_map(|point| point.probes.iter().find(is_forgotten))
        };
        let Some(probe) = find(engine) else {
            return;
        };
        pr_warn!(
            "a module that goes has left a probe at {}\n",
            Shown(probe.address())
        );
        // Its client may be about to unregister it after all, and free it then: not touched without the mutex.
        let kretprobe = kretprobe::kretprobe_of(probe);
        engine.unregister(core::iter::once(probe));
        if let Some(kretprobe) = kretprobe {
            kretprobe.free();
        }
        drop(guard);
        GracePeriod::wait();
    }
}

/// Calls `f` with each probe, in the order of their addresses; those whose code has gone come last.
pub(crate) fn each<E>(mut f: impl FnMut(Kprobe) -> Result<(), E>) -> Result<(), E> {
    let engine = engine();
    let Some(engine) = engine.as_ref() else {
        return Ok(());
    };
    let held = engine.points.values().map(|held| &**held);
    for held in Iterator::chain(held, engine.gone.iter()) {
        held.point.probes.iter().try_for_each(&mut f)?;
    }
    Ok(())
}

/// Whether breakpoints are there at all.
pub(crate) fn are_enabled() -> bool {
    engine().as_ref().is_some_and(|e| e.enabled)
}

/// Takes all breakpoints away, or puts those of enabled probes back.
pub(crate) fn enable_all(on: bool) -> Result<(), Error> {
    let mut engine = engine();
    let engine = engine.as_mut().ok_or(Error::NotStarted)?;
    if engine.enabled != on {
        engine.enable_all(on)?;
        pr_info!(
            "Kprobes globally {}\n",
            if on { "enabled" } else { "disabled" }
        );
    }
    Ok(())
}

/// Whether a probe is registered.
pub(crate) fn is_registered(probe: Kprobe) -> bool {
    engine()
        .as_ref()
        .is_some_and(|e| e.probes.get(&probe.id()).is_some())
}

impl Engine {
    fn register(
        &mut self,
        probes: &[Kprobe],
        sites: &[Site],
        fault: FaultHandler,
    ) -> Result<(), (usize, Error)> {
        let instructions = self.instructions(sites)?;
        let mut admitted = 0;
        let mut result = self.make_room(probes.len());
        if result.is_ok() {
            result = self.finders.reserve(probes.len());
        }
        for ((probe, site), read) in probes.iter().zip(sites).zip(&instructions) {
            if result.is_err() {
                break;
            }
            result = self.admit(*probe, site, read.as_ref()).map(|flags| {
                probe.prepare(site.address, flags, fault);
                admitted += 1;
            });
        }
        if let Err(error) = result {
            self.withdraw(probes.get(..admitted).unwrap_or(&[]));
            return Err((admitted, error));
        }
        if let Err((at, error)) = self.commit(probes) {
            self.unregister(probes.iter().copied());
            // Some may have been hit already.
            GracePeriod::wait();
            probes.iter().for_each(|probe| probe.clear_list());
            return Err((at, error));
        }
        Ok(())
    }

    /// The instructions at the sites that have no point yet.
    fn instructions(&self, sites: &[Site]) -> Result<KVVec<Option<Read>>, (usize, Error)> {
        let mut all = KVVec::with_capacity(sites.len(), GFP_KERNEL).map_err(|e| (0, e.into()))?;
        let text = TextLock::new();
        let original = |address: usize| {
            let held = self.points.get(&address)?;
            held.armed.then_some(held.code.original)
        };
        for (i, site) in sites.iter().enumerate() {
            let read = match site.is_ftrace || self.points.get(&site.address).is_some() {
                true => None,
                false => Some(site.instructions(&text, original).map_err(|e| (i, e))?),
            };
            all.push(read, GFP_KERNEL).map_err(|e| (i, e.into()))?;
        }
        Ok(all)
    }

    /// Makes a probe part of what is registered, without anybody seeing it yet. Returns its flags.
    fn admit(&mut self, probe: Kprobe, site: &Site, read: Option<&Read>) -> Result<u32, Error> {
        if self.probes.get(&probe.id()).is_some() {
            return Err(Error::Registered);
        }
        let mut flags = probe.flags() & flags::DISABLED;
        if site.at_entry {
            flags |= flags::ON_FUNC_ENTRY;
        }
        if site.is_ftrace {
            flags |= flags::FTRACE;
        }
        let made = self.points.get(&site.address).is_none();
        if made {
            self.make(site, read)?;
        }
        let entered = self.enter(probe, site.address);
        if entered.is_err() && made {
            self.points.remove(&site.address);
        }
        entered.map(|()| flags)
    }

    fn make(&mut self, site: &Site, read: Option<&Read>) -> Result<(), Error> {
        let (point, code) = match read {
            None => Point::ftrace(site.address, site::LEN),
            Some((insn, next)) => Point::breakpoint(site.address, insn, next.as_ref())?,
        };
        let held = Held {
            point: Arc::new(point, GFP_KERNEL)?,
            code,
            text: site.text,
            armed: false,
            called: None,
            fresh: true,
            removed: [const { None }; 1 + KEYS],
            next: None,
        };
        let held = KBox::new(held, GFP_KERNEL)?;
        let node = RBTreeNode::new(site.address, held, GFP_KERNEL).map_err(|_| Error::NoMemory)?;
        self.points.insert(node);
        Ok(())
    }

    /// Notes that a probe is at a point, and gets the memory that this takes.
    fn enter(&mut self, probe: Kprobe, address: usize) -> Result<(), Error> {
        let held = self
            .points
            .get_mut(&address)
            .ok_or(Error::NotAnInstruction)?;
        if probe.has_post() && held.point.needs_after() {
            let point = held.point.clone();
            held.code.make_after(&point)?;
        }
        let node = RBTreeNode::new(probe.id(), held.point.clone(), GFP_KERNEL)
            .map_err(|_| Error::NoMemory)?;
        self.probes.insert(node);
        Ok(())
    }

    /// Undoes [`Engine::admit`].
    fn withdraw(&mut self, probes: &[Kprobe]) {
        for probe in probes {
            let point = self.probes.remove(&probe.id());
            let Some(address) = point.map(|p| p.address) else {
                continue;
            };
            if self.points.get(&address).is_some_and(|held| held.fresh) {
                self.points.remove(&address);
            }
        }
    }

    /// Writes the code, lets the probes be found, and puts the breakpoints there.
    fn commit(&mut self, probes: &[Kprobe]) -> Result<(), (usize, Error)> {
        let mut text = TextLock::new();
        for (i, probe) in probes.iter().enumerate() {
            let address = probe.address();
            if let Some(held) = self.points.get_mut(&address) {
                publish(&mut self.finders, held, *probe, &mut text).map_err(|e| (i, e))?;
            }
        }
        let mut changed = false;
        for (i, probe) in probes.iter().enumerate() {
            if let Some(held) = self.points.get_mut(&probe.address()) {
                changed |= held.arm(&mut text, self.enabled).map_err(|e| (i, e))?;
            }
        }
        if changed {
            text.sync();
        }
        drop(text);
        self.call(probes.iter().map(|p| p.address()))
            .map_err(|e| (0, e))
    }

    fn unregister(&mut self, probes: impl Iterator<Item = Kprobe> + Clone) {
        for probe in probes.clone() {
            match self.probes.remove(&probe.id()) {
                // It comes twice in this batch: its point is still to be settled.
                None if self.is_empty_point(probe.address()) => (),
                None => probe.set_address(0),
                Some(point) => {
                    point.probes.remove(probe);
                    let has_post = point.probes.iter().any(Kprobe::has_post);
                    point.has_post.store(usize::from(has_post));
                }
            }
        }
        self.settle(probes.clone());
        let mut any_gone = false;
        for probe in probes {
            any_gone |= probe.flags() & flags::GONE != 0;
            self.retire(probe.address());
        }
        if any_gone {
            self.retire_gone();
        }
        self.want_grace_period();
    }

    /// Whether there is a point at this address, without probes.
    fn is_empty_point(&self, address: usize) -> bool {
        let held = self.points.get(&address);
        held.is_some_and(|held| held.point.probes.is_empty())
    }

    /// Puts breakpoints there and takes them away, as the probes at these addresses want it.
    fn settle(&mut self, probes: impl Iterator<Item = Kprobe> + Clone) {
        let mut text = TextLock::new();
        let mut changed = false;
        for probe in probes.clone() {
            if let Some(held) = self.points.get_mut(&probe.address()) {
                // Code that has gone has no breakpoint either.
                changed |= held.arm(&mut text, self.enabled).unwrap_or(false);
            }
        }
        if changed {
            text.sync();
        }
        drop(text);
        // What ftrace cannot take away it has given up already.
        let _ = self.call(probes.map(|p| p.address()));
    }

    /// Has ftrace call us from the points at these addresses, as their probes want it.
    fn call(&mut self, addresses: impl Iterator<Item = usize> + Clone) -> Result<(), Error> {
        let mut result = Ok(());
        // First those that go, of either kind: a site that changes its kind cannot be of both.
        for remove in [true, false] {
            for kind in Kind::ALL {
                result = result.and(self.call_kind(addresses.clone(), kind, remove));
            }
        }
        result
    }

    fn call_kind(
        &mut self,
        addresses: impl Iterator<Item = usize> + Clone,
        kind: Kind,
        remove: bool,
    ) -> Result<(), Error> {
        self.list.clear();
        let to = (!remove).then_some(kind);
        for address in addresses {
            let Some(held) = self.points.get_mut(&address) else {
                continue;
            };
            let (is, wanted) = (
                held.called == Some(kind),
                held.wanted_call(self.enabled) == Some(kind),
            );
            let due = if remove {
                is && !wanted
            } else {
                wanted && held.called.is_none()
            };
            // There is room, see `make_room()`.
            if due && self.list.push_within_capacity(address).is_ok() {
                held.called = to;
            }
        }
        let done = match remove {
            true => kind.remove(&self.list),
            false => kind.add(&self.list),
        };
        if let Err(error) = done {
            let back = if remove { Some(kind) } else { None };
            for address in self.list.iter() {
                if let Some(held) = self.points.get_mut(address) {
                    held.called = back;
                }
            }
            return Err(Error::Ftrace(error));
        }
        self.called = match remove {
            true => self.called.saturating_sub(self.list.len()),
            false => self.called.saturating_add(self.list.len()),
        };
        Ok(())
    }

    /// Makes room for the addresses of all sites that are armed and `more`.
    fn make_room(&mut self, more: usize) -> Result<(), Error> {
        self.list.clear();
        Ok(self
            .list
            .reserve(self.called.saturating_add(more), GFP_KERNEL)?)
    }

    /// If the point at an address has no probes any more, it is found no longer; its copies stay for now.
    fn retire(&mut self, address: usize) {
        if !self.is_empty_point(address) {
            return;
        }
        if let Some(mut held) = self.points.remove(&address) {
            if let Some(kind) = held.called.take() {
                // ftrace could not take it away.
                kind.abandon(address);
                self.called = self.called.saturating_sub(1);
            }
            self.hide(&mut held);
            self.retired.push(held);
        }
    }

    /// The same for those whose code has gone.
    fn retire_gone(&mut self) {
        for held in core::mem::replace(&mut self.gone, Chain::new()) {
            match held.point.probes.is_empty() {
                true => self.retired.push(held),
                false => self.gone.push(held),
            }
        }
    }

    /// Has [`reap`] called after a grace period of RCU tasks, unless it is going to be called after one that has begun.
    /// Nobody waits for it: a task that never sleeps makes it last.
    fn want_grace_period(&mut self) {
        if self.waiting.is_empty() && !self.retired.is_empty() {
            core::mem::swap(&mut self.waiting, &mut self.retired);
            grace_period::call_reap();
        }
    }

    /// The points that nobody is in any more, which from now on nobody finds.
    fn take_waiting(&mut self) -> Chain {
        let mut over = Chain::new();
        for mut held in core::mem::replace(&mut self.waiting, Chain::new()) {
            let keys = held.keys();
            for (removed, key) in held.removed.iter_mut().skip(1).zip(keys) {
                *removed = self.finders.copies.remove(key);
            }
            over.push(held);
        }
        self.want_grace_period();
        over
    }

    /// Has a point found no longer by its own address.
    fn hide(&mut self, held: &mut Held) {
        let [own, ..] = &mut held.removed;
        *own = self.finders.points.remove(held.point.address);
    }

    fn enable(&mut self, probe: Kprobe, on: bool) -> Result<(), Error> {
        self.probes.get(&probe.id()).ok_or(Error::NotRegistered)?;
        let flags = probe.flags();
        if on && flags & flags::GONE != 0 {
            return Err(Error::NotRegistered);
        }
        if on {
            self.make_room(1)?;
        }
        let new = if on {
            flags & !flags::DISABLED
        } else {
            flags | flags::DISABLED
        };
        probe.set_flags(new);
        self.rearm(probe.address())
            .inspect_err(|_| probe.set_flags(flags))
    }

    /// Puts the breakpoint of one point there, or takes it away.
    fn rearm(&mut self, address: usize) -> Result<(), Error> {
        if let Some(held) = self.points.get_mut(&address) {
            let mut text = TextLock::new();
            if held.arm(&mut text, self.enabled)? {
                text.sync();
            }
        }
        self.call(core::iter::once(address))
    }

    fn enable_all(&mut self, on: bool) -> Result<(), Error> {
        self.enabled = on;
        let mut result = Ok(());
        let mut text = TextLock::new();
        for held in self.points.values_mut() {
            // As many as can be.
            if let Err(error) = held.arm(&mut text, on) {
                result = Err(error);
            }
        }
        text.sync();
        drop(text);
        let mut from = 0;
        while let Some(address) = self.next_point(from) {
            from = address.wrapping_add(1);
            result = result.and(self.call(core::iter::once(address)));
        }
        result
    }

    fn kill(&mut self, is_going: impl Fn(usize) -> bool) {
        let mut from = 0;
        while let Some(address) = self.next_point(from) {
            from = address.wrapping_add(1);
            if is_going(address) {
                self.kill_point(address);
            }
        }
    }

    /// The address of the first point at or behind `from`.
    fn next_point(&self, from: usize) -> Option<usize> {
        self.points
            .cursor_lower_bound(&from)
            .map(|c| *c.current().0)
    }

    fn kill_point(&mut self, address: usize) {
        // ftrace still knows the site.
        if let Some(held) = self.points.get(&address) {
            if let Some(kind) = held.called {
                kind.abandon(address);
                self.called = self.called.saturating_sub(1);
            }
        }
        let Some(mut held) = self.points.remove(&address) else {
            return;
        };
        for probe in held.point.probes.iter() {
            probe.set_flags(probe.flags() | flags::GONE);
        }
        self.hide(&mut held);
        held.armed = false;
        held.called = None;
        self.gone.push(held);
    }

    /// Gives up all points.
    fn clear(&mut self) {
        // Code that has gone has no breakpoint.
        let _ = self.enable_all(false);
        self.kill(|_| true);
    }
}
