// SPDX-License-Identifier: GPL-2.0

//! Registry of trampolines.
//!
//! Contexts: process, sleeps; with `ftrace_lock` or without. Locks, outermost first: the mutex of
//! `DataLock`, `ftrace_lock`, [`REGISTRY`], the pool's locks, `text_mutex`.
#![deny(unsafe_code)]

use ferro_ftrace_tramp_core::Refusal;
use ferro_sys::code::symbols::Shown;
use ferro_sys::static_mutex;
use ferro_sys::sync::mutex::StaticMutex;
use kernel::prelude::*;
use kernel::rbtree::RBTree;
use kernel::rbtree::RBTreeNodeReservation;

use crate::raw::func_data::DataChange;
use crate::raw::func_data::DataEvent;
use crate::raw::func_data::DataTrampolines;
use crate::raw::hooks::TrampolineHandler;
use crate::raw::ops::Ops;
use crate::raw::ops_sets;
use crate::raw::ops_sets::LiveSets;
use crate::raw::ops_sets::SetChange;
use crate::raw::ops_sets::SetInfo;
use crate::raw::shared_trampoline::Retired;
use crate::raw::step::Phase;
use crate::raw::step::Step;
use crate::raw::template::KernelTemplate;
use crate::raw::template::TemplateError;
use crate::raw::template::Templates;
use crate::raw::trampoline::Trampoline;
use crate::raw::trampoline::TrampolineInfo;

/// State of the engine, under its mutex.
pub(crate) struct Registry {
    templates: Templates,
    /// Trampolines of single ops, by the address of their ops.
    live: RBTree<usize, Trampoline>,
    sets: LiveSets,
    data: DataTrampolines,
    /// Trampolines that no stub jumps to, until the next reclaim.
    retired: Retired,
    /// Set after ftrace has failed while changing sites: a site may call any trampoline.
    ftrace_failed: bool,
}

static REGISTRY: StaticMutex<Option<Registry>> = static_mutex!(ferro_tramp_mutex, None);

/// Calls `f` with the registry locked. Returns [`None`] if the engine has not started.
fn with<R>(f: impl FnOnce(&mut Registry) -> R) -> Option<R> {
    REGISTRY.lock().as_mut().map(f)
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

/// Creates the registry.
///
/// Errors: -EOPNOTSUPP, with the reason in the log, if the kernel's trampolines have an unknown
/// form; -ENOMEM.
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
        ftrace_failed: false,
    };
    *REGISTRY.lock() = Some(registry);
    Ok(())
}

/// Stops the engine. Trampolines that remain in use stay callable and are never freed.
pub(crate) fn stop() {
    ops_sets::cancel_reclaim();
    reclaim();
    *REGISTRY.lock() = None;
}

/// Frees the trampolines that no function calls, after waiting for tasks inside them.
extern "C" fn reclaim() {
    let quiescing = with(|registry| {
        let retired = core::mem::take(&mut registry.retired);
        registry.sets.begin_reclaim(retired)
    });
    let Some(quiescing) = quiescing.flatten() else {
        return;
    };
    let quiesced = quiescing.wait();
    let reclaimable = with(|registry| registry.sets.take_reclaimable(quiesced));
    // Drop without holding the mutex.
    drop(reclaimable);
}

impl TrampolineHandler for Registry {
    fn update(ops: Ops<'_>) -> bool {
        with(|registry| registry.update_trampoline(ops)).unwrap_or(false)
    }

    fn free(ops: Ops<'_>) -> bool {
        with(|registry| registry.free_trampoline(ops)).unwrap_or(false)
    }

    fn change_set(change: SetChange<'_>) -> bool {
        with(|registry| registry.sets.change(change)).is_some()
    }

    fn step(step: Step<'_>) {
        with(|registry| match step.phase() {
            Phase::Before => {
                let (templates, data) = (&registry.templates, &registry.data);
                registry.sets.prepare(&step, templates, data);
            }
            Phase::After => {
                if registry.sets.sites_changed(&step) {
                    ops_sets::schedule_reclaim(reclaim);
                }
            }
            Phase::Failed => registry.handle_failure(&step),
        });
    }

    fn change_data(mut change: DataChange<'_>) {
        with(|registry| match change.event() {
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
                    ops_sets::schedule_reclaim(reclaim);
                }
            }
        });
    }
}

/// Calls `f` for each trampoline of a single ops.
pub(crate) fn each(mut f: impl FnMut(&TrampolineInfo) -> core::fmt::Result) -> core::fmt::Result {
    with(|registry| {
        let mut all = registry.live.values();
        all.try_for_each(|trampoline| f(&trampoline.info()))
    })
    .unwrap_or(Ok(()))
}

/// Calls `f` for each set of several ops.
pub(crate) fn each_set(f: impl FnMut(&SetInfo) -> core::fmt::Result) -> core::fmt::Result {
    with(|registry| registry.sets.each(f)).unwrap_or(Ok(()))
}

/// Calls `f` for each trampoline of functions with data.
pub(crate) fn each_data(f: impl FnMut(&TrampolineInfo) -> core::fmt::Result) -> core::fmt::Result {
    with(|registry| registry.data.each(f)).unwrap_or(Ok(()))
}

impl Registry {
    /// Creates or updates the trampoline of an ops. Returns false if the kernel has to do it.
    fn update_trampoline(&mut self, ops: Ops<'_>) -> bool {
        self.sets.retarget(ops);
        match self.live.get_mut(&ops.address()) {
            Some(trampoline) if trampoline.is_of(ops) => {
                if let Err(error) = trampoline.retarget(ops.function()) {
                    // ftrace cannot be told about the error.
                    let at = Shown(trampoline.address());
                    pr_err!("{at}: no call: error {}\n", error.to_errno());
                }
                return true;
            }
            // A new ops reuses the address of one whose removal ftrace has not reported. The old
            // code stays callable.
            Some(_) => drop(self.live.remove(&ops.address())),
            None => (),
        }
        // Skip trampolines of the kernel and of the client. The kernel makes the trampolines of
        // livepatches, which have to outlast a module.
        if ops.trampoline() != 0 || (cfg!(MODULE) && ops.changes_ip()) {
            return false;
        }
        // On failure the kernel may find room elsewhere.
        self.add(ops).is_ok()
    }

    fn add(&mut self, ops: Ops<'_>) -> Result {
        // Reserve first: nothing detaches the trampoline if this fails later.
        let room = RBTreeNodeReservation::new(GFP_KERNEL)?;
        let trampoline = Trampoline::attach(ops, &self.templates)?;
        self.live.insert(room.into_node(ops.address(), trampoline));
        Ok(())
    }

    /// Frees the trampoline of an ops. Returns false if the kernel has to do it.
    fn free_trampoline(&mut self, ops: Ops<'_>) -> bool {
        let live = self.live.remove(&ops.address());
        if self.ftrace_failed {
            // A site may still call the trampoline, whether the engine or the kernel has made it.
            // So it stays. A client's own trampoline stays as it is.
            if live.is_some_and(|trampoline| trampoline.is_of(ops)) {
                ops.clear_trampoline();
            }
            return true;
        }
        let done = live.is_some();
        if let Some(trampoline) = live {
            trampoline.detach(ops);
        }
        done
    }

    /// Retargets all trampolines after ftrace has failed. Sites may be stuck with an old
    /// trampoline, which must not call an unregistered ops.
    fn handle_failure(&mut self, step: &Step<'_>) {
        self.ftrace_failed = true;
        self.sets.handle_failure(step);
        for trampoline in self.live.values_mut() {
            // Cannot fail: the new target is in the image, or as near as the old one.
            let _ = trampoline.handle_failure(step);
        }
    }
}
