// SPDX-License-Identifier: GPL-2.0

//! Reaper of exits that were still running after the wait for them.
//!
//! Contexts: process; sleeps.
#![deny(unsafe_code)]

use ferro_sys::hook::settle_later;
use ferro_sys::hook::wait_for_exits;

use crate::registry::with;
use crate::registry::Registry;
use crate::retired::Leaving;
use crate::retired::Stage;

impl Registry {
    /// Returns true if there is work for [`settle`].
    fn is_unsettled(&self) -> bool {
        let unsettled = |l: &Leaving| matches!(l.stage, Stage::Abandoned | Stage::Resting(_));
        !self.unquiet.is_empty() || self.leaving.iter().any(unsettled)
    }
}

/// Drops these exits, except the ones that a CPU may still run.
pub(crate) fn drop_left(wanted: impl Fn(&Leaving) -> bool) {
    let take = |registry: &mut Registry| {
        let is_quiet = |l: &&mut Leaving| l.stage == Stage::Quiet && wanted(l);
        let quiet = registry.leaving.iter_mut().find(is_quiet)?;
        quiet.stage = Stage::Dropping;
        Some((quiet.id, quiet.exit.owned.take()))
    };
    while let Some((id, owned)) = with(take) {
        // The drop may call the registry.
        drop(owned);
        drop(with(|registry| {
            let at = registry.leaving.iter().position(|l| l.id == id)?;
            registry.leaving.remove(at).ok()
        }));
    }
}

/// Looks for exits that were still running after the wait and have returned since. Defers their
/// drop, because a drop may wait for any lock. Schedules itself again if some are left. Context: a
/// work item.
pub(crate) fn settle() {
    let any_rests = with(|registry| {
        registry.unquiet.settle();
        let mut any = false;
        for leaving in registry.leaving.iter_mut() {
            if let (Stage::Abandoned, Some(rest)) =
                (&leaving.stage, leaving.exit.counters.at_rest())
            {
                leaving.stage = Stage::Resting(rest);
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
        for leaving in registry.leaving.iter_mut() {
            if let Stage::Resting(rest) = &leaving.stage {
                if leaving.exit.counters.at_rest() != Some(*rest) {
                    leaving.stage = Stage::Abandoned;
                    continue;
                }
                leaving.stage = Stage::Quiet;
                if let Some(note) = leaving.note.take() {
                    return Some(note);
                }
            }
        }
        None
    };
    while let Some(note) = with(rested) {
        note.defer();
    }
    settle_if_needed();
}

pub(crate) fn settle_if_needed() {
    if with(|registry| registry.is_unsettled()) {
        settle_later();
    }
}
