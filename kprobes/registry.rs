// SPDX-License-Identifier: GPL-2.0

//! The registry of probes and points under the engine's mutex, and the waits that must not hold the
//! mutex.
//!
//! `batch.rs` registers and unregisters, `arming.rs` arms and disarms, `optimize.rs` places jumps
//! and `unoptimize.rs` removes them, `reclaim.rs` frees points without probes or code.
//!
//! Contexts: process, sleeps. Locks, outermost first: the engine's mutex, CPU hotplug, jump labels,
//! `text_mutex`.
#![deny(unsafe_code)]

use ferro_kprobes_core::jump::MAX_DISPLACED;
use ferro_sys::code::symbols::Shown;
use ferro_sys::sync::rcu_tasks;
use kernel::prelude::*;
use kernel::rbtree::RBTree;
use kernel::sync::Arc;

use crate::error::Error;
use crate::error::RefusedLog;
use crate::ftrace_probes::FtraceCalls;
use crate::optprobe::OptimizerPass;
use crate::probe_address::Permit;
use crate::raw::grace_period;
use crate::raw::grace_period::GracePeriod;
use crate::raw::grace_period::TasksPeriod;
use crate::raw::kprobe::FaultHandler;
use crate::raw::kprobe::Kprobe;
use crate::raw::kretprobe;
use crate::raw::module_notifier;
use crate::raw::mutex::EngineMutex;
use crate::raw::optimizer_work;
use crate::raw::probe_point::Point;
use crate::registered_point::PointList;
use crate::registered_point::PointMaps;
use crate::registered_point::RegisteredPoint;

/// Number of jumps to remove at once, with the same synchronisations.
const UNOPTIMIZE_MAX: usize = 1024;

/// State of the engine.
pub(crate) struct State {
    pub(crate) maps: PointMaps,
    /// By address.
    pub(crate) points: RBTree<usize, KBox<RegisteredPoint>>,
    /// By the address of the `struct kprobe`.
    pub(crate) probes: RBTree<usize, Arc<Point>>,
    /// Points in code that was freed; their probes may still be registered.
    pub(crate) gone: PointList,
    /// Points without probes; their copies may still be running.
    pub(crate) retired: PointList,
    /// Retired points with a grace period of RCU tasks that has begun.
    pub(crate) waiting: PointList,
    /// A call of `registry::reap()` is pending, after a grace period of RCU tasks.
    pub(crate) is_reap_due: bool,
    pub(crate) ftrace: FtraceCalls,
    /// Number of ftrace sites that call the engine.
    pub(crate) called_sites: usize,
    /// Addresses of sites to add to ftrace or to remove. Has room for all of `called_sites`.
    pub(crate) site_list: KVVec<usize>,
    /// Breakpoints are enabled globally.
    pub(crate) enabled: bool,
    /// Jump optimization is on.
    pub(crate) is_optimizing: bool,
    /// `registry::optimize()` is scheduled, to look for points to optimize.
    pub(crate) optimizer_due: bool,
    /// Progress of `registry::optimize()`, if it has begun.
    pub(crate) pass: Option<OptimizerPass>,
    /// There was no memory for one of the detours.
    pub(crate) detours_failed: bool,
    /// Points without probes and with jumps to remove may be at this address or above.
    pub(crate) idle_from: Option<usize>,
    /// Number of points that use a detour.
    pub(crate) detours: usize,
    /// The latest refused probes.
    pub(crate) refused: RefusedLog,
    /// Room for addresses of points with jumps to remove.
    pub(crate) unoptimizing: KVVec<usize>,
}

impl State {
    /// Creates the state, without probes. Errors: -EBUSY if there is an engine already.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self {
            maps: PointMaps::new()?,
            points: RBTree::new(),
            probes: RBTree::new(),
            gone: PointList::new(),
            retired: PointList::new(),
            waiting: PointList::new(),
            is_reap_due: false,
            ftrace: FtraceCalls::new(),
            called_sites: 0,
            site_list: KVVec::new(),
            enabled: true,
            is_optimizing: true,
            optimizer_due: false,
            pass: None,
            detours_failed: false,
            idle_from: None,
            detours: 0,
            refused: RefusedLog::default(),
            unoptimizing: KVVec::with_capacity(UNOPTIMIZE_MAX, GFP_KERNEL)?,
        })
    }

    /// Returns true if the point at this address has no probes.
    pub(crate) fn is_empty_point(&self, address: usize) -> bool {
        let entry = self.points.get(&address);
        entry.is_some_and(|entry| entry.point.probes.is_empty())
    }

    /// Returns the address of the first point at or after `from`.
    pub(crate) fn next_point(&self, from: usize) -> Option<usize> {
        self.points
            .cursor_lower_bound(&from)
            .map(|c| *c.current().0)
    }

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
}

static STATE: EngineMutex<Option<State>> = EngineMutex::new(None);

/// Starts the engine. Errors: -EBUSY if it was started before.
pub(crate) fn start() -> Result {
    let mut guard = STATE.lock();
    let (engine, _) = guard.split();
    if engine.is_some() {
        return Err(EBUSY);
    }
    *engine = Some(State::new()?);
    Ok(())
}

/// Removes all probes, also those that clients have left registered. Waits until no task is in
/// their copies, and until no debugger has a breakpoint in one of their jumps.
pub(crate) fn stop() {
    let mut warned = false;
    let mut stopped = loop {
        let mut guard = STATE.lock();
        let (engine, locked) = guard.split();
        // No later caller finds the engine, nor does `reap()`.
        if engine.as_mut().is_none_or(|engine| engine.clear(locked)) {
            break engine.take();
        }
        drop(guard);
        if !core::mem::replace(&mut warned, true) {
            pr_warn!("unloading waits until jumps that other code has changed are restored\n");
        }
        module_notifier::sleep_briefly();
    };
    if let Some(stopped) = &mut stopped {
        stopped.ftrace.close();
    }
    optimizer_work::cancel();
    rcu_tasks::synchronize();
    grace_period::wait_for_reap();
    if let Some(stopped) = stopped {
        drop(stopped.maps);
        let period = GracePeriod::wait();
        for points in [stopped.gone, stopped.retired, stopped.waiting] {
            points.release(&period);
        }
    }
}

/// Frees the points whose grace period of RCU tasks has ended: no task is in their copies. Closes
/// the ftrace ops that have no sites left.
pub(crate) fn reap(period: &TasksPeriod) {
    let over = {
        let mut guard = STATE.lock();
        let engine = guard.split().0.as_mut();
        engine.map(|engine| engine.take_waiting(period))
    };
    if let Some((over, idle)) = over {
        over.release(&GracePeriod::wait());
        idle.close();
    }
}

/// Registers probes, all or none, with this fault handler.
pub(crate) fn register(probes: &[Kprobe<'_>], fault: FaultHandler) -> Result<(), (usize, Error)> {
    let mut permits = KVec::with_capacity(probes.len(), GFP_KERNEL).map_err(|e| (0, e.into()))?;
    for (i, probe) in probes.iter().enumerate() {
        let permit = Permit::obtain(*probe).map_err(|e| (i, e))?;
        permits
            .push(permit, GFP_KERNEL)
            .map_err(|e| (i, e.into()))?;
    }
    let mut guard = STATE.lock();
    let (engine, locked) = guard.split();
    let engine = engine.as_mut().ok_or((0, Error::NotStarted))?;
    engine.register(probes, &permits, fault, locked)
}

/// Unregisters probes. No handler of theirs is running when this returns. Sets the address of a
/// probe that is not registered to 0.
pub(crate) fn unregister<'a>(probes: impl Iterator<Item = Kprobe<'a>> + Clone) {
    unregister_with(probes, || ());
}

/// Unregisters probes like [`unregister`]. Calls `before` when they are no longer hit, before the
/// wait for running handlers.
pub(crate) fn unregister_with<'a>(
    probes: impl Iterator<Item = Kprobe<'a>> + Clone,
    before: impl FnOnce(),
) {
    let mut guard = STATE.lock();
    let (engine, locked) = guard.split();
    if let Some(engine) = engine.as_mut() {
        engine.unregister(probes.clone(), locked);
    }
    drop(guard);
    before();
    let over = GracePeriod::wait();
    for probe in probes.filter(|p| p.address() != 0) {
        probe.clear_list(&over);
    }
}

/// Enables or disables a probe.
pub(crate) fn enable(probe: Kprobe<'_>, on: bool) -> Result<(), Error> {
    let mut guard = STATE.lock();
    let (engine, locked) = guard.split();
    let engine = engine.as_mut().ok_or(Error::NotRegistered)?;
    engine.enable(probe, on, locked)
}

/// Kills the probes in code that is about to be freed.
pub(crate) fn kill(is_going: impl Fn(usize) -> bool) {
    let mut guard = STATE.lock();
    let (engine, locked) = guard.split();
    if let Some(engine) = engine.as_mut() {
        engine.kill(is_going, locked);
    }
}

/// Unregisters probes that a client has left registered, if a part of the probe or its handlers are
/// in memory that is about to be freed.
pub(crate) fn unregister_leaked(is_going: impl Fn(usize) -> bool) {
    let is_leaked = |probe: &Kprobe<'_>| {
        kretprobe::client_addresses(*probe)
            .iter()
            .any(|at| is_going(*at))
    };
    loop {
        let mut guard = STATE.lock();
        let (engine, locked) = guard.split();
        let Some(engine) = engine.as_mut() else {
            return;
        };
        let leaked = {
            let mut points = engine.probes.values();
            points.find_map(|point| point.probes.iter(locked).find(is_leaked))
        };
        let Some(probe) = leaked else {
            return;
        };
        pr_warn!(
            "an unloading module has left a probe registered at {}\n",
            Shown(probe.address())
        );
        // Access the probe only under the mutex: its client may still unregister and then free it.
        let kretprobe = kretprobe::kretprobe_of(probe);
        engine.unregister(core::iter::once(probe), locked);
        if let Some(kretprobe) = kretprobe {
            kretprobe.free();
        }
        drop(guard);
        GracePeriod::wait();
    }
}

/// Calls `f` with each probe, in the order of their addresses; probes in freed code follow last.
pub(crate) fn each<E>(mut f: impl FnMut(Kprobe<'_>) -> Result<(), E>) -> Result<(), E> {
    let mut guard = STATE.lock();
    let (engine, locked) = guard.split();
    let Some(engine) = engine.as_ref() else {
        return Ok(());
    };
    let entries = engine.points.values().map(|entry| &**entry);
    for entry in Iterator::chain(entries, engine.gone.iter()) {
        entry.point.probes.iter(locked).try_for_each(&mut f)?;
    }
    Ok(())
}

/// Returns true if breakpoints are enabled globally.
pub(crate) fn are_enabled() -> bool {
    STATE.lock().split().0.as_ref().is_some_and(|e| e.enabled)
}

/// Disables all breakpoints, or enables those of enabled probes.
pub(crate) fn enable_all(on: bool) -> Result<(), Error> {
    let mut guard = STATE.lock();
    let (engine, locked) = guard.split();
    let engine = engine.as_mut().ok_or(Error::NotStarted)?;
    if engine.enabled != on {
        engine.enable_all(on, locked)?;
        pr_info!(
            "Kprobes globally {}\n",
            if on { "enabled" } else { "disabled" }
        );
    }
    Ok(())
}

/// Replaces breakpoints by jumps where possible. Holds no lock while it waits for all tasks.
pub(crate) fn optimize() {
    while prepare_jumps() {
        let waited = TasksPeriod::wait();
        while place_some(&waited) {}
    }
}

/// Removes the jumps of unregistered probes. Waits for no task.
pub(crate) fn unoptimize_idle() {
    while unoptimize_some() {}
}

/// Removes some of these jumps. Returns true if there may be more.
fn unoptimize_some() -> bool {
    let mut guard = STATE.lock();
    let (engine, locked) = guard.split();
    engine.as_mut().is_some_and(|e| e.unoptimize_idle(locked))
}

/// Makes detours, a few at a time. Returns true if jumps to some of them are due after a grace
/// period of RCU tasks.
fn prepare_jumps() -> bool {
    let mut any = false;
    loop {
        let mut guard = STATE.lock();
        let (engine, locked) = guard.split();
        let Some(engine) = engine.as_mut() else {
            return false;
        };
        let (made, more) = engine.prepare_jumps(locked);
        any |= made;
        if !more {
            return any;
        }
    }
}

/// Places some jumps. Returns true if there may be more.
fn place_some(waited: &TasksPeriod) -> bool {
    let mut guard = STATE.lock();
    let (engine, locked) = guard.split();
    engine
        .as_mut()
        .is_some_and(|e| e.place_jumps(waited, locked))
}

/// Returns true if jump optimization is on.
pub(crate) fn is_optimizing() -> bool {
    STATE
        .lock()
        .split()
        .0
        .as_ref()
        .is_some_and(|e| e.is_optimizing)
}

/// Switches jump optimization on, which places jumps soon, or off, which removes all of them now.
pub(crate) fn set_optimizing(on: bool) {
    let mut guard = STATE.lock();
    let (engine, locked) = guard.split();
    if let Some(engine) = engine.as_mut().filter(|e| e.is_optimizing != on) {
        engine.set_optimizing(on, locked);
        pr_info!(
            "kprobe jump-optimization is {}\n",
            if on { "enabled" } else { "disabled" }
        );
    }
}

/// Stores a line about a refused probe, for [`refused`].
pub(crate) fn note_refused(line: KVVec<u8>) {
    if let Some(engine) = STATE.lock().split().0.as_mut() {
        engine.refused.push(line);
    }
}

/// Returns the lines about the latest refused probes. Errors: -ENOMEM.
pub(crate) fn refused() -> Result<KVVec<u8>> {
    match STATE.lock().split().0.as_ref() {
        Some(engine) => engine.refused.text(),
        None => Ok(KVVec::new()),
    }
}

/// Returns true if a probe is registered.
pub(crate) fn is_registered(probe: Kprobe<'_>) -> bool {
    let mut guard = STATE.lock();
    let (engine, _) = guard.split();
    let engine = engine.as_ref();
    engine.is_some_and(|e| e.probes.get(&probe.id()).is_some())
}
