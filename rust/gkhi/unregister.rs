// SPDX-License-Identifier: GPL-2.0

//! Exits and hooks that their owners have no more use for: the last of an owner in Rust, and a module that goes.
//!
//! Contexts: process; sleeps. [`finish`]: any.
#![deny(unsafe_code)]

use ferro_core::hooks::Op;
use ferro_sys::hook::can_wait;
use ferro_sys::hook::Module;
use ferro_sys::hook::Note;
use kernel::prelude::*;
use kernel::time::delay::fsleep;
use kernel::time::Delta;

use crate::error::Error;
use crate::exit_entry::ExitEntry;
use crate::hook_registration::delete_where;
use crate::kvec_lists::Exit;
use crate::kvec_lists::Hook;
use crate::raw::deferred_release::ExitId;
use crate::reaper::drop_left;
use crate::registry::with;
use crate::retired::Leaving;
use crate::retired::Stage;
use crate::transaction::apply;

/// How often a module that is being unloaded looks for calls of its exits before it says what it
/// waits for: ten seconds.
const WAITS_UNTOLD: u32 = 1000;

/// The owner of an exit or of a hook has no more use for it: takes it away, or has that done where one can wait.
pub(crate) fn finish(note: KBox<Note>) {
    if !can_wait() {
        return note.defer();
    }
    let id = note.what();
    // Nothing may be left, so that a lack of memory is waited out; and it is gone already if its module went before. No
    // hook has the number of an exit.
    let _ = until_memory(|| match delete_where(|hook| hook.id == id) {
        Err(Error::Unregistered) => apply(Op::Deregister, &[ExitId(id).handle()]),
        result => result,
    });
    // If it is still called, the note comes back here when it is not.
    with(|registry| {
        let is_it = |l: &&mut Leaving| l.id == id && l.stage != Stage::Quiet;
        if let Some(leaving) = registry.leaving.iter_mut().find(is_it) {
            leaving.note = Some(note);
        }
    });
    drop_left(|l| l.id == id);
}

/// Does what has to be done, whether or not there is memory at first.
pub(crate) fn until_memory(mut f: impl FnMut() -> Result<(), Error>) -> Result<(), Error> {
    loop {
        match f() {
            Err(Error::NoMemory) => fsleep(Delta::from_millis(10)),
            other => return other,
        }
    }
}

/// Deletes the hooks of a module that is being unloaded and deregisters its exits, wherever they
/// are.
///
/// One pass finds all: nothing of the module has been added since its state changed, not even by
/// what its exits own when that is dropped here (`is_going()`).
pub(crate) fn module_going(module: &Module) {
    // Nothing of the module may stay, so that a lack of memory is waited out.
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
        // Somebody else may just have done it.
        let _ = until_memory(|| apply(Op::Deregister, &[handle]));
    }
    // Others may be waiting for exits of it, and an exit may sleep where it must not.
    let mut waits = 0_u32;
    while with(|registry| registry.leaving.iter().any(|l| l.exit.is_of(module))) {
        fsleep(Delta::from_millis(10));
        drop_left(|l| l.exit.is_of(module));
        waits = waits.saturating_add(1);
        if waits == WAITS_UNTOLD {
            with(|registry| {
                for leaving in registry.leaving.iter().filter(|l| l.exit.is_of(module)) {
                    let name = &*leaving.exit.name;
                    pr_warn!("{name}: its module goes when a call of it has returned\n");
                }
            });
        }
    }
}

/// Returns true if a call of an exit of the module has not returned, of those exits that count
/// their calls.
pub(crate) fn is_called_of(module: &Module) -> bool {
    let is_called = |exit: &ExitEntry| exit.is_of(module) && exit.counters().is_called();
    with(|registry| {
        let mut exits = registry.table.exits();
        exits.any(|e| is_called(&e.body)) || registry.leaving.iter().any(|l| is_called(&l.exit))
    })
}
