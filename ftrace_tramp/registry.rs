// SPDX-License-Identifier: GPL-2.0

//! Registry of trampolines.
//!
//! Contexts: process, sleeps; with `ftrace_lock` or without.
#![deny(unsafe_code)]

use ferro_core::tramp::Refusal;
use ferro_sys::code::symbols::Shown;
use kernel::prelude::*;
use kernel::rbtree::RBTree;
use kernel::rbtree::RBTreeNodeReservation;

use crate::raw::func_data::DataChange;
use crate::raw::func_data::DataEntry;
use crate::raw::func_data::DataEvent;
use crate::raw::func_data::DataTrampolines;
use crate::raw::mutex::RegistryMutex;
use crate::raw::ops::Ops;
use crate::raw::ops_sets;
use crate::raw::ops_sets::LiveSets;
use crate::raw::ops_sets::Phase;
use crate::raw::ops_sets::SetChange;
use crate::raw::ops_sets::SetEntry;
use crate::raw::ops_sets::Step;
use crate::raw::shared_trampoline::Retired;
use crate::raw::template::KernelTemplate;
use crate::raw::template::TemplateError;
use crate::raw::template::Templates;
use crate::raw::trampoline::Trampoline;

/// Trampoline of one ops.
struct Live {
    trampoline: Trampoline,
    saves_regs: bool,
}

/// State of the engine, under its mutex.
struct Registry {
    templates: Templates,
    /// Trampolines by the address of their ops.
    live: RBTree<usize, Live>,
    sets: LiveSets,
    data: DataTrampolines,
    /// Trampolines that no stub jumps to.
    retired: Retired,
    /// Set before detaching: functions get no more sets and no more stubs.
    detaching: bool,
    /// Set after ftrace has failed while changing sites: a site may call any trampoline.
    ftrace_failed: bool,
}

static REGISTRY: RegistryMutex<Option<Registry>> = RegistryMutex::new(None);

/// Trampoline, for the debugfs list.
pub(crate) struct Entry {
    /// Address and lengths in bytes.
    pub(crate) address: usize,
    pub(crate) used: usize,
    pub(crate) slot: usize,
    /// The callback gets all registers.
    pub(crate) saves_regs: bool,
}

fn template(saves_regs: bool) -> Result<KernelTemplate> {
    KernelTemplate::new(saves_regs).map_err(|error| match error {
        TemplateError::Errno(error) => error,
        TemplateError::Refused(refusal) => {
            let name = if saves_regs {
                "ftrace_regs_caller"
            } else {
                "ftrace_caller"
            };
            let (why, at) = describe(refusal);
            pr_err!("cannot copy {name}: {why} at {at:#x}\n");
            EOPNOTSUPP
        }
    })
}

fn describe(refusal: Refusal) -> (&'static str, u16) {
    match refusal {
        Refusal::Labels => ("labels out of order", 0),
        Refusal::NoBoundary(at) => ("no instruction at a label", at),
        Refusal::Undecodable(at) => ("no instruction", at),
        Refusal::NoLoad(at) => ("no load of the ops", at),
        Refusal::NoCall(at) => ("no call", at),
        Refusal::NoDirect(at) => ("no way to direct calls", at),
        Refusal::Leaves(at) => ("an instruction that leaves", at),
        Refusal::TooManyMoved(at) => ("too many operands relative to RIP", at),
    }
}

/// Creates the engine's state.
///
/// Errors: -EOPNOTSUPP, with the reason in the log, if the engine does not know the kernel's
/// trampolines; -ENOMEM.
pub(crate) fn start() -> Result {
    let registry = Registry {
        templates: Templates {
            plain: template(false)?,
            regs: template(true)?,
        },
        live: RBTree::new(),
        sets: LiveSets::new(),
        data: DataTrampolines::new(),
        retired: Retired::default(),
        detaching: false,
        ftrace_failed: false,
    };
    *REGISTRY.lock() = Some(registry);
    Ok(())
}

/// Marks the engine as about to be detached: functions get no more sets and no more stubs.
///
/// Context: with `ftrace_lock` held. So each update of an ops's functions runs either entirely
/// before or entirely after this.
pub(crate) extern "C" fn begin_detach() {
    if let Some(registry) = REGISTRY.lock().as_mut() {
        registry.detaching = true;
    }
}

/// Returns true after [`begin_detach`]. This cannot be undone.
pub(crate) fn is_detaching() -> bool {
    REGISTRY
        .lock()
        .as_ref()
        .is_some_and(|registry| registry.detaching)
}

/// Stops the engine. Trampolines that remain in use stay callable and are never freed.
pub(crate) fn stop() {
    ops_sets::cancel_reclaim();
    reclaim();
    *REGISTRY.lock() = None;
}

/// Handles a change of a function's ops. Returns true if the engine has reported the function's
/// set.
pub(crate) fn change_set(change: SetChange<'_>) -> bool {
    let mut guard = REGISTRY.lock();
    let Some(registry) = guard.as_mut() else {
        return false;
    };
    registry.sets.change(change, registry.detaching);
    true
}

/// Handles a step of ftrace's site changes: before, after, or failed.
pub(crate) fn step(step: Step<'_>) {
    let mut guard = REGISTRY.lock();
    let Some(registry) = guard.as_mut() else {
        return;
    };
    match step.phase() {
        Phase::Before => registry
            .sets
            .prepare(&step, &registry.templates, &registry.data),
        Phase::After => {
            if registry.sets.settle(&step) {
                ops_sets::schedule_reclaim();
            }
        }
        Phase::Failed => registry.ftrace_failed(&step),
    }
}

/// Attaches or detaches per-function data.
pub(crate) fn change_data(mut change: DataChange<'_>) {
    let mut guard = REGISTRY.lock();
    let Some(registry) = guard.as_mut() else {
        return;
    };
    match change.event() {
        DataEvent::Attach if registry.detaching => (),
        DataEvent::Attach => {
            if let Err(error) = registry.data.attach(&mut change, &registry.templates) {
                pr_warn!(
                    "functions without a stub of their own: error {}\n",
                    error.to_errno()
                );
            }
        }
        DataEvent::Detached => registry.data.detach(&mut change),
        DataEvent::Released => {
            if registry.data.release(&mut change, &mut registry.retired) {
                ops_sets::schedule_reclaim();
            }
        }
    }
}

/// Frees the trampolines that no function calls, after waiting for tasks inside them.
pub(crate) fn reclaim() {
    let unused = REGISTRY.lock().as_mut().and_then(|registry| {
        let retired = core::mem::take(&mut registry.retired);
        registry.sets.begin_reclaim(retired)
    });
    let Some(unused) = unused else {
        return;
    };
    let quiesced = unused.wait();
    let reclaimable = REGISTRY
        .lock()
        .as_mut()
        .map(|registry| registry.sets.take_reclaimable(quiesced));
    // Drop without holding the mutex.
    drop(reclaimable);
}

/// Creates or updates the trampoline of an ops. Returns false if the kernel has to do it.
pub(crate) fn update(ops: Ops<'_>) -> bool {
    let mut guard = REGISTRY.lock();
    let Some(registry) = guard.as_mut() else {
        return false;
    };
    registry.sets.retarget(ops);
    match registry.live.get_mut(&ops.address()) {
        Some(live) if live.trampoline.is_of(ops) => {
            if let Err(error) = live.trampoline.retarget(ops.function()) {
                // ftrace cannot be told about the error.
                let at = Shown(live.trampoline.address());
                pr_err!("{at}: no call: error {}\n", error.to_errno());
            }
            return true;
        }
        // A new ops reuses the address of one whose removal ftrace has not reported. The old code
        // stays callable.
        Some(_) => drop(registry.live.remove(&ops.address())),
        None => (),
    }
    // Skip trampolines of the kernel and of the client. The kernel makes those of livepatches,
    // which have to outlast a module.
    if ops.trampoline() != 0 || (cfg!(MODULE) && ops.changes_ip()) {
        return false;
    }
    // On failure the kernel may find room elsewhere.
    registry.add(ops).is_ok()
}

/// Frees the trampoline of an ops. Returns false if the kernel has to do it.
pub(crate) fn free(ops: Ops<'_>) -> bool {
    let mut guard = REGISTRY.lock();
    let Some(registry) = guard.as_mut() else {
        return false;
    };
    let live = registry.live.remove(&ops.address());
    if registry.ftrace_failed {
        // A site may call it, regardless of its maker. A client's own trampoline stays untouched.
        if live.is_some_and(|live| live.trampoline.is_of(ops)) {
            ops.clear_trampoline();
        }
        return true;
    }
    let done = live.is_some();
    if let Some(live) = live {
        live.trampoline.detach(ops);
    }
    done
}

/// Calls `f` for each trampoline.
pub(crate) fn each(mut f: impl FnMut(&Entry) -> core::fmt::Result) -> core::fmt::Result {
    let guard = REGISTRY.lock();
    for live in guard.iter().flat_map(|registry| registry.live.values()) {
        f(&Entry {
            address: live.trampoline.address(),
            used: live.trampoline.used(),
            slot: live.trampoline.slot_len(),
            saves_regs: live.saves_regs,
        })?;
    }
    Ok(())
}

/// Calls `f` for each set of several ops.
pub(crate) fn each_set(f: impl FnMut(&SetEntry) -> core::fmt::Result) -> core::fmt::Result {
    match REGISTRY.lock().as_ref() {
        Some(registry) => registry.sets.each(f),
        None => Ok(()),
    }
}

/// Calls `f` for each `struct ftrace_data_ops` whose functions have stubs.
pub(crate) fn each_data(f: impl FnMut(&DataEntry) -> core::fmt::Result) -> core::fmt::Result {
    match REGISTRY.lock().as_ref() {
        Some(registry) => registry.data.each(f),
        None => Ok(()),
    }
}

impl Registry {
    /// Retargets all trampolines, so that sites stuck with an old one do not call an unregistered
    /// ops.
    fn ftrace_failed(&mut self, step: &Step<'_>) {
        self.ftrace_failed = true;
        self.sets.ftrace_failed(step);
        for live in self.live.values_mut() {
            // Cannot fail: the new target is in the image, or as near as the old one.
            let _ = live.trampoline.ftrace_failed(step);
        }
    }

    fn add(&mut self, ops: Ops<'_>) -> Result {
        // Do the fallible step first: an attached trampoline is not undone.
        let room = RBTreeNodeReservation::new(GFP_KERNEL)?;
        let saves_regs = ops.saves_regs();
        let live = Live {
            trampoline: Trampoline::attach(ops, self.templates.get(saves_regs))?,
            saves_regs,
        };
        self.live.insert(room.into_node(ops.address(), live));
        Ok(())
    }
}
