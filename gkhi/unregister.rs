// SPDX-License-Identifier: GPL-2.0

//! Deregistration for dropped owners in Rust, and for modules that are being unloaded.
//!
//! Contexts: process; sleeps. [`release_or_defer`]: any.
#![deny(unsafe_code)]

use ferro_gkhi_core::Op;
use ferro_sys::hook::can_wait;
use ferro_sys::hook::DeferredRelease;
use ferro_sys::hook::Module;
use kernel::prelude::*;
use kernel::time::delay::fsleep;
use kernel::time::Delta;

use crate::entries::ExitEntry;
use crate::entries::RetiredExit;
use crate::entries::Stage;
use crate::error::Error;
use crate::kvec_lists::Exit;
use crate::kvec_lists::Hook;
use crate::raw::ExitId;
use crate::reaper::drop_quiesced;
use crate::registry::with;
use crate::transaction::apply;
use crate::transaction::delete_where;

/// Number of waits for an exit's calls before the unload of a module logs a warning: ten seconds.
const WAITS_BEFORE_WARNING: u32 = 1000;

/// Unregisters for a dropped owner; defers to a work item if the caller cannot sleep.
pub(crate) fn release_or_defer(release: KBox<DeferredRelease>) {
    if !can_wait() {
        return release.defer();
    }
    let id = release.id();
    // Hooks and exits share one range of numbers, so the release may be of either. Retry until
    // there is memory: a drop must not fail. An unload of the exit's module may have deregistered
    // it before.
    let _ = until_memory(|| match delete_where(|hook| hook.id == id) {
        Err(Error::Unregistered) => apply(Op::Deregister, &[ExitId(id).handle()]),
        result => result,
    });
    // If the exit is still running, keep the release: the reaper defers it when the exit has
    // returned.
    with(|registry| {
        let is_it =
            |retired: &&mut RetiredExit| retired.id == id && retired.stage != Stage::Quiesced;
        if let Some(retired) = registry.retired.iter_mut().find(is_it) {
            retired.release = Some(release);
        }
    });
    drop_quiesced(|retired| retired.id == id);
}

/// Calls `f` until it does not fail for lack of memory.
pub(crate) fn until_memory(mut f: impl FnMut() -> Result<(), Error>) -> Result<(), Error> {
    loop {
        match f() {
            Err(Error::NoMemory) => fsleep(Delta::from_millis(10)),
            other => return other,
        }
    }
}

/// Deletes the hooks and deregisters the exits of a module being unloaded.
///
/// One pass finds all of them: `is_going()` has refused registrations of the module since it began
/// to go, even those by the drop of its exits' objects.
pub(crate) fn module_going(module: &Module) {
    // Nothing of the module may stay registered, so this retries until there is memory.
    let its = |hook: &Hook| module.contains(hook.body.publisher.hook().address());
    while until_memory(|| delete_where(its)).is_ok() {}
    loop {
        let of_module = |e: &&Exit| e.body.is_of(module);
        let found = with(|registry| {
            registry.table.exits().find(of_module).map(|exit| {
                pr_notice!(
                    "{}: its module goes and has not deregistered it\n",
                    &*exit.body.name
                );
                exit.body.handle(exit.id)
            })
        });
        let Some(handle) = found else { break };
        // Another task may just have deregistered it.
        let _ = until_memory(|| apply(Op::Deregister, &[handle]));
    }
    // Wait until all are dropped: another task may still wait for an exit of the module, and an
    // exit may sleep where it must not.
    let mut waits = 0_u32;
    while with(|registry| {
        registry
            .retired
            .iter()
            .any(|retired| retired.exit.is_of(module))
    }) {
        fsleep(Delta::from_millis(10));
        drop_quiesced(|retired| retired.exit.is_of(module));
        waits = waits.saturating_add(1);
        if waits == WAITS_BEFORE_WARNING {
            with(|registry| {
                for retired in registry
                    .retired
                    .iter()
                    .filter(|retired| retired.exit.is_of(module))
                {
                    let name = &*retired.exit.name;
                    pr_warn!("{name}: its module goes when a call of it has returned\n");
                }
            });
        }
    }
}

/// Returns true if a call of an exit of the module is running. Considers only exits that count
/// their calls.
pub(crate) fn is_called_of(module: &Module) -> bool {
    let is_called = |exit: &ExitEntry| exit.is_of(module) && exit.counters().is_called();
    with(|registry| {
        let mut exits = registry.table.exits();
        exits.any(|e| is_called(&e.body))
            || registry
                .retired
                .iter()
                .any(|retired| is_called(&retired.exit))
    })
}
