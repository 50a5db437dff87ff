// SPDX-License-Identifier: GPL-2.0

//! Waiting for exits that a change has retired.
//!
//! Contexts: process; sleeps.
#![deny(unsafe_code)]

use ferro_sys::hook::AtRest;
use ferro_sys::hook::RetireList;
use kernel::prelude::*;

use crate::entries::ExitEntry;
use crate::entries::Stage;
use crate::error::Error;
use crate::kvec_lists::Exit;
use crate::reaper::reap_if_needed;
use crate::registry::with;
use crate::registry::Registry;

/// An exit that a change retires, as its waiter sees it.
pub(crate) struct Watched {
    pub(crate) id: usize,
    /// Count of armings before the change. An exit that has been armed again is skipped.
    armings: usize,
    /// State of the exit before the wait, if no call of it was running.
    rest: Option<AtRest>,
}

impl Registry {
    /// Returns records to watch these exits.
    pub(crate) fn watch(&self, ids: &[usize]) -> Result<KVec<Watched>, Error> {
        let mut watched = KVec::with_capacity(ids.len(), GFP_KERNEL)?;
        for exit in self.table.exits().filter(|e| ids.contains(&e.id)) {
            let one = Watched {
                id: exit.id,
                armings: exit.body.armings,
                rest: None,
            };
            watched.push(one, GFP_KERNEL)?;
        }
        Ok(watched)
    }

    /// Returns a watched exit, unless it has been armed again.
    fn watched(&self, one: &Watched) -> Option<&ExitEntry> {
        let retired = self.retired.iter().find(|retired| retired.id == one.id);
        let retired = retired.map(|retired| &retired.exit);
        retired.or_else(|| {
            let same = |e: &&Exit| e.id == one.id && e.body.armings == one.armings;
            self.table.exits().find(same).map(|e| &e.body)
        })
    }

    /// Records the state of the exits before the wait.
    fn sample(&self, watched: &mut [Watched]) {
        for one in watched {
            let exit = self.watched(one);
            one.rest = exit.and_then(|exit| exit.counters.at_rest());
        }
    }

    /// Returns true if a watched exit has been called since `sample()`, or is being called.
    fn was_called(&self, one: &Watched) -> bool {
        let rests = |exit: &ExitEntry| one.rest.is_some() && exit.counters.at_rest() == one.rest;
        self.watched(one).is_some_and(|exit| !rests(exit))
    }

    /// Returns true if an exit sleeps where it must not, in a chain of this or of an earlier retire
    /// list. The exits after it in that chain may still be called.
    fn has_called_chain(&self, retire_list: &RetireList) -> bool {
        // Another waiter may have retired the chain before this change.
        let others = self.waited_lists > usize::from(retire_list.has_counted_chain());
        others || retire_list.has_called_chain() || self.busy.has_called_chain()
    }

    /// Prevents further calls of these exits, even by a dispatch that began before and sleeps in
    /// another exit.
    fn disarm_running(&self, watched: &[Watched]) {
        for exit in watched.iter().filter_map(|one| self.watched(one)) {
            exit.node.self_disarm();
        }
    }

    /// Records the end of the wait for these exits and the retire list. Returns
    /// [`Error::StillCalled`] if a call of a still registered exit may not have returned.
    fn note_waited(&mut self, retire_list: RetireList, watched: &[Watched]) -> Result<(), Error> {
        self.waited_lists -= usize::from(retire_list.has_counted_chain());
        self.busy.retire(retire_list);
        let mut result = Ok(());
        for one in watched {
            let quiet = !self.was_called(one);
            match self.table.exit_mut(one.id) {
                Some(exit) if exit.body.armings == one.armings => {
                    exit.body.quiet |= quiet;
                    if !quiet {
                        result = Err(Error::StillCalled);
                    }
                }
                Some(_) | None => {}
            }
        }
        result
    }

    /// Records the end of the wait for exits that were deregistered.
    pub(crate) fn note_quiesced(&mut self, watched: &[Watched]) {
        for one in watched {
            let quiet = !self.was_called(one);
            if let Some(retired) = self.retired.iter_mut().find(|retired| retired.id == one.id) {
                retired.stage = match quiet {
                    true => Stage::Quiesced,
                    false => Stage::Busy,
                };
            }
        }
    }
}

/// Waits until no CPU runs these exits, which have been retired.
///
/// Does not wait for an exit that sleeps where it must not, as the caller may be in that exit. The
/// dispatch that called the sleeping exit keeps its chain until it has returned, and calls none of
/// these exits.
pub(crate) fn finish_change(
    mut retire_list: RetireList,
    watched: &mut [Watched],
) -> Result<(), Error> {
    with(|registry| registry.sample(watched));
    retire_list.wait();
    let again = with(|registry| {
        let called = !watched.is_empty() && registry.has_called_chain(&retire_list);
        if called {
            registry.disarm_running(watched);
        }
        // An exit that has slept during the wait may be about to return.
        let again = called || watched.iter().any(|one| registry.was_called(one));
        if again {
            registry.sample(watched);
        }
        again
    });
    if again {
        retire_list.wait();
    }
    let result = with(|registry| registry.note_waited(retire_list, watched));
    reap_if_needed();
    result
}
