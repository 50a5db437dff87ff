// SPDX-License-Identifier: GPL-2.0

//! Transactions: arm, disarm or deregister several exits in one step.
//!
//! Contexts: process; sleeps.
#![deny(unsafe_code)]

use ferro_core::hooks::Op;
use ferro_core::hooks::State;
use ferro_sys::hook::RetireList;
use kernel::prelude::*;

use crate::commit;
use crate::context::check_context;
use crate::debugfs_nodes::ExitFile;
use crate::error::Error;
use crate::handle::Handle;
use crate::kvec_lists::Exit;
use crate::quiesce::finish_change;
use crate::raw::locks::lock_files;
use crate::reaper::drop_left;
use crate::reaper::settle_if_needed;
use crate::registry::with;
use crate::registry::Registry;
use crate::retired::Leaving;
use crate::retired::Stage;

impl Registry {
    /// Applies a change to all of these exits, or to none. Returns the retired targets for
    /// [`finish_change`], and the files of deregistered exits, which are in `leaving` until then.
    pub(crate) fn change(
        &mut self,
        op: Op,
        ids: &[usize],
    ) -> Result<(RetireList, KVec<ExitFile>), Error> {
        self.note_spent();
        let mut files = KVec::with_capacity(ids.len(), GFP_KERNEL)?;
        self.leaving.reserve(ids.len(), GFP_KERNEL)?;
        self.table.stage(op, ids)?;
        let applied = commit::apply(&mut self.table, ids.len());
        let mut grave = applied.inspect_err(|_| self.table.abort())?;
        if op != Op::Arm {
            for exit in self.table.exits().filter(|e| ids.contains(&e.id)) {
                if !exit.body.quiet {
                    // The list has room for one of each.
                    let _ = grave.note(&exit.body.readers);
                }
            }
        }
        for hook in self.table.hooks_mut() {
            let leaving = hook.exits().iter().filter(|e| e.next() == State::Gone);
            let hits = leaving.map(|e| e.body.counters.direct_hits());
            let hits = hits.fold(0, usize::wrapping_add);
            hook.body.past_hits = hook.body.past_hits.wrapping_add(hits);
        }
        let leaving = &mut self.leaving;
        self.table.commit(|mut exit| {
            // Both lists have room for all of them.
            if let Some(file) = exit.body.file.take() {
                let _ = files.push_within_capacity(file);
            }
            exit.body.counters.set_armed(false);
            let _ = leaving.push_within_capacity(Leaving {
                id: exit.id,
                exit: exit.body,
                stage: Stage::Waiting,
                note: None,
            });
        });
        for exit in self.table.exits() {
            exit.body.counters.set_armed(exit.state() == State::Armed);
        }
        self.waiting += usize::from(grave.has_counted_chain());
        Ok((grave, files))
    }
}

/// Arms, disarms or deregisters exits, all in one step. A successful disarm has waited until no CPU
/// runs the exits; otherwise it returns [`Error::StillCalled`]. A deregistered exit that is still
/// running is kept until it has returned.
pub(crate) fn apply(op: Op, handles: &[Handle]) -> Result<(), Error> {
    check_context()?;
    let mut ids = KVec::with_capacity(handles.len(), GFP_KERNEL)?;
    for handle in handles {
        ids.push(handle.id, GFP_KERNEL)?;
    }
    let lock_files = (op == Op::Deregister).then(lock_files);
    let (grave, files, mut watched) = with(|registry| {
        for handle in handles {
            let same =
                |e: &Exit| e.id == handle.id && e.body.parts.record_address() == handle.record;
            if !registry.table.exits().any(same) {
                return Err(Error::Unregistered);
            }
        }
        let watched = registry.watch(&ids)?;
        let (grave, files) = registry.change(op, &ids)?;
        Ok((grave, files, watched))
    })?;
    drop(files);
    drop(lock_files);
    match op {
        Op::Arm => finish_change(grave, &mut []),
        Op::Disarm => finish_change(grave, &mut watched),
        Op::Deregister => {
            let result = finish_change(grave, &mut watched);
            with(|registry| registry.note_left(&watched));
            drop_left(|l| watched.iter().any(|one| one.id == l.id));
            settle_if_needed();
            result
        }
    }
}

/// Removes exits that have disarmed themselves from their hooks.
pub(crate) fn tidy() {
    // Without memory they stay, skipped by dispatches, until the next change.
    let _ = with(|registry| {
        registry.note_spent();
        let mut ids = KVec::new();
        for exit in registry.table.exits() {
            if exit.state() == State::Spent {
                ids.push(exit.id, GFP_KERNEL)?;
            }
        }
        registry.change(Op::Disarm, &ids).map(|(grave, _)| grave)
    })
    .map(|grave| finish_change(grave, &mut []));
}
