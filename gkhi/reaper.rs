// SPDX-License-Identifier: GPL-2.0

//! Reaper of exits that were still running after the wait for them.
//!
//! Contexts: process; sleeps.
#![deny(unsafe_code)]

use ferro_sys::hook::reap_later;
use ferro_sys::hook::wait_for_exits;

use crate::entries::RetiredExit;
use crate::entries::Stage;
use crate::registry::with;
use crate::registry::Registry;

impl Registry {
    /// Returns true if there is work for [`reap`].
    fn has_work(&self) -> bool {
        let still_busy =
            |retired: &RetiredExit| matches!(retired.stage, Stage::Busy | Stage::Resting(_));
        !self.busy.is_empty() || self.retired.iter().any(still_busy)
    }
}

/// Drops the objects of these exits, except exits that a CPU may still run.
pub(crate) fn drop_quiesced(wanted: impl Fn(&RetiredExit) -> bool) {
    let take = |registry: &mut Registry| {
        let is_quiet =
            |retired: &&mut RetiredExit| retired.stage == Stage::Quiesced && wanted(retired);
        let quiet = registry.retired.iter_mut().find(is_quiet)?;
        quiet.stage = Stage::Dropping;
        Some((quiet.id, quiet.exit.object.take()))
    };
    while let Some((id, object)) = with(take) {
        // Drop without the lock: the drop may call the registry.
        drop(object);
        drop(with(|registry| {
            let at = registry
                .retired
                .iter()
                .position(|retired| retired.id == id)?;
            registry.retired.remove(at).ok()
        }));
    }
}

/// Looks for exits that were still running after the wait and have returned since. Defers the drop
/// of their objects, which may wait for any lock. Schedules itself again if some are left.
///
/// Context: a work item.
pub(crate) fn reap() {
    let any_rests = with(|registry| {
        registry.busy.reap();
        let mut any = false;
        for retired in registry.retired.iter_mut() {
            if let (Stage::Busy, Some(rest)) = (&retired.stage, retired.exit.counters.at_rest()) {
                retired.stage = Stage::Resting(rest);
                any = true;
            }
        }
        any
    });
    if any_rests {
        // The last calls have counted their ends, but may not have returned yet.
        wait_for_exits();
    }
    let rested = |registry: &mut Registry| {
        for retired in registry.retired.iter_mut() {
            if let Stage::Resting(rest) = &retired.stage {
                if retired.exit.counters.at_rest() != Some(*rest) {
                    retired.stage = Stage::Busy;
                    continue;
                }
                retired.stage = Stage::Quiesced;
                if let Some(release) = retired.release.take() {
                    return Some(release);
                }
            }
        }
        None
    };
    while let Some(release) = with(rested) {
        release.defer();
    }
    reap_if_needed();
}

/// Schedules [`reap`] if it has work.
pub(crate) fn reap_if_needed() {
    if with(|registry| registry.has_work()) {
        reap_later();
    }
}
