// SPDX-License-Identifier: GPL-2.0

//! What was still called when it had been waited for, and its end.
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
    /// Whether there is something for [`settle`].
    fn is_unsettled(&self) -> bool {
        let unsettled = |l: &Leaving| matches!(l.stage, Stage::Abandoned | Stage::Resting(_));
        !self.unquiet.is_empty() || self.leaving.iter().any(unsettled)
    }
}

/// Drops those of these exits that nobody is in.
pub(crate) fn drop_left(wanted: impl Fn(&Leaving) -> bool) {
    let take = |registry: &mut Registry| {
        let is_quiet = |l: &&mut Leaving| l.stage == Stage::Quiet && wanted(l);
        let quiet = registry.leaving.iter_mut().find(is_quiet)?;
        quiet.stage = Stage::Dropping;
        Some((quiet.id, quiet.exit.owned.take()))
    };
    while let Some((id, owned)) = with(take) {
        // It may use this registry when it is dropped.
        drop(owned);
        drop(with(|registry| {
            let at = registry.leaving.iter().position(|l| l.id == id)?;
            registry.leaving.remove(at).ok()
        }));
    }
}

/// Looks for what was still called when it had been waited for, and is no longer. It is dropped by others, as it may wait for
/// whom it wants. Looks again later if there is more. Context: a work item.
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
        // The last calls have counted their ends, and still have to return.
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
