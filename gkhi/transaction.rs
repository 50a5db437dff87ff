// SPDX-License-Identifier: GPL-2.0

//! Transactions: arm, disarm or deregister several exits in one step, or delete a hook.
//!
//! Contexts: process; sleeps.
#![deny(unsafe_code)]

use ferro_gkhi_core::Op;
use ferro_gkhi_core::State;
use ferro_sys::hook::RetireList;
use kernel::prelude::*;

use crate::commit;
use crate::debugfs_nodes::lock_files;
use crate::debugfs_nodes::ExitFile;
use crate::entries::Handle;
use crate::entries::RetiredExit;
use crate::entries::Stage;
use crate::error::check_context;
use crate::error::Error;
use crate::kvec_lists::Exit;
use crate::kvec_lists::Hook;
use crate::quiesce::finish_change;
use crate::reaper::drop_quiesced;
use crate::reaper::reap_if_needed;
use crate::registry::with;
use crate::registry::Registry;

impl Registry {
    /// Applies a change to all of these exits, or to none. Returns the retired targets for
    /// [`finish_change`], and the files of deregistered exits. Moves these exits to `retired`.
    pub(crate) fn change(
        &mut self,
        op: Op,
        ids: &[usize],
    ) -> Result<(RetireList, KVec<ExitFile>), Error> {
        self.note_self_disarmed();
        let mut files = KVec::with_capacity(ids.len(), GFP_KERNEL)?;
        self.retired.reserve(ids.len(), GFP_KERNEL)?;
        self.table.stage(op, ids)?;
        let applied = commit::apply(&mut self.table, ids.len());
        let mut retire_list = applied.inspect_err(|_| self.table.abort())?;
        if op != Op::Arm {
            for exit in self.table.exits().filter(|e| ids.contains(&e.id)) {
                if !exit.body.quiet {
                    // The list has room for one of each.
                    let _ = retire_list.add_readers(&exit.body.readers);
                }
            }
        }
        for hook in self.table.hooks_mut() {
            let retired = hook.exits().iter().filter(|e| e.next() == State::Gone);
            let hits = retired.map(|e| e.body.counters.direct_hits());
            let hits = hits.fold(0, usize::wrapping_add);
            hook.body.past_hits = hook.body.past_hits.wrapping_add(hits);
        }
        let retired = &mut self.retired;
        self.table.commit(|mut exit| {
            // Both lists have room for all deregistered exits.
            if let Some(file) = exit.body.file.take() {
                let _ = files.push_within_capacity(file);
            }
            exit.body.counters.set_armed(false);
            let _ = retired.push_within_capacity(RetiredExit {
                id: exit.id,
                exit: exit.body,
                stage: Stage::Quiescing,
                release: None,
            });
        });
        for exit in self.table.exits() {
            exit.body.counters.set_armed(exit.state() == State::Armed);
        }
        self.waited_lists += usize::from(retire_list.has_counted_chain());
        Ok((retire_list, files))
    }
}

/// Arms, disarms or deregisters exits, all in one step. A successful disarm has waited until no CPU
/// runs the exits. If one still runs, the exits are disarmed and this returns
/// [`Error::StillCalled`]. A deregistered exit that still runs is kept until it has returned.
pub(crate) fn apply(op: Op, handles: &[Handle]) -> Result<(), Error> {
    check_context()?;
    let mut ids = KVec::with_capacity(handles.len(), GFP_KERNEL)?;
    for handle in handles {
        ids.push(handle.id, GFP_KERNEL)?;
    }
    let lock_files = (op == Op::Deregister).then(lock_files);
    let (retire_list, files, mut watched) = with(|registry| {
        for handle in handles {
            let same =
                |e: &Exit| e.id == handle.id && e.body.parts.record_address() == handle.record;
            if !registry.table.exits().any(same) {
                return Err(Error::Unregistered);
            }
        }
        let watched = registry.watch(&ids)?;
        let (retire_list, files) = registry.change(op, &ids)?;
        Ok((retire_list, files, watched))
    })?;
    drop(files);
    drop(lock_files);
    match op {
        Op::Arm => finish_change(retire_list, &mut []),
        Op::Disarm => finish_change(retire_list, &mut watched),
        Op::Deregister => {
            let result = finish_change(retire_list, &mut watched);
            with(|registry| registry.note_quiesced(&watched));
            drop_quiesced(|retired| watched.iter().any(|one| one.id == retired.id));
            reap_if_needed();
            result
        }
    }
}

/// Deletes a hook. Its exits stay registered, without a hook.
pub(crate) fn delete_where(wanted: impl Fn(&Hook) -> bool) -> Result<(), Error> {
    check_context()?;
    let lock_files = lock_files();
    // Returns the retired targets, because the wait for them must not hold the registry's lock.
    let (retire_list, entry, files, mut watched) = with(|registry| {
        let mut hooks = registry.table.hooks().iter();
        let hook = hooks.find(|h| wanted(h)).ok_or(Error::Unregistered)?;
        let (id, mut ids) = (hook.id, KVec::new());
        for exit in hook.exits() {
            ids.push(exit.id, GFP_KERNEL)?;
        }
        let mut files = KVec::with_capacity(ids.len(), GFP_KERNEL)?;
        let watched = registry.watch(&ids)?;
        registry.table.prepare_delete(id)?;
        let (retire_list, _) = registry.change(Op::Disarm, &ids)?;
        // This cannot fail: the table has room.
        let entry = registry.table.delete(id).ok();
        for id in ids {
            if let Some(file) = registry.table.exit_mut(id).and_then(|e| e.body.file.take()) {
                let _ = files.push_within_capacity(file);
            }
        }
        Ok::<_, Error>((retire_list, entry, files, watched))
    })?;
    drop(files);
    let (dir, publisher) = entry.map_or((None, None), |entry| (entry.dir, Some(entry.publisher)));
    drop(dir);
    drop(lock_files);
    // Ignores `StillCalled`: an exit that still runs keeps the data that it needs.
    let _ = finish_change(retire_list, &mut watched);
    drop(publisher);
    Ok(())
}

/// Removes exits that have disarmed themselves from their hooks.
pub(crate) fn remove_self_disarmed() {
    // Without memory they stay until the next change. Dispatches skip them.
    let _ = with(|registry| {
        registry.note_self_disarmed();
        let mut ids = KVec::new();
        for exit in registry.table.exits() {
            if exit.state() == State::SelfDisarmed {
                ids.push(exit.id, GFP_KERNEL)?;
            }
        }
        registry
            .change(Op::Disarm, &ids)
            .map(|(retire_list, _)| retire_list)
    })
    .map(|retire_list| finish_change(retire_list, &mut []));
}
