// SPDX-License-Identifier: GPL-2.0

//! Hits of a point, and the decision at which of them its program runs.
//!
//! A hit while a program runs on the same CPU is missed: it does not use up a run. The run of an
//! interpreted program is counted only once it can no longer be missed. Other programs are counted
//! at the hit, and run at a later hit instead of each missed one.
//!
//! Contexts: any, NMI included.
#![deny(unsafe_code)]

use ferro_dprobes_core as rpn;
use ferro_sys::sync::shared_word::Word;
use kernel::prelude::*;

use crate::raw::worker;

/// Bias of the hit counter before [`HitCounter::begin`], larger than any number of hits.
const DORMANT: usize = 1 << (usize::BITS - 1);

/// Counter of hits and runs. Hits before [`HitCounter::begin`] run nothing and are not counted.
pub(crate) struct HitCounter {
    /// Number of hits, biased by [`DORMANT`] before [`HitCounter::begin`].
    hits: Word,
    /// Number of initial hits at which the program does not run.
    pass: usize,
    /// Index of the last hit that runs the program if none is missed. From this hit on,
    /// [`HitCounter::is_past_last`] decides.
    last: Word,
    /// Maximum number of hits at which the program runs; 0 after [`HitCounter::end`].
    max: Word,
    /// Initial value of `max`, which [`HitCounter::end`] does not change.
    max_hits: usize,
    missed: Word,
    /// Number of runs that an interpreted program has begun.
    began: Word,
    /// Number of hits beyond `max` that replaced a missed one; 0 for interpreted programs.
    replaced: Word,
    is_interpreted: bool,
    /// 1 once the work item was asked to check if the point can be detached.
    detach_requested: Word,
}

impl HitCounter {
    /// Makes the counter of a point. Errors: -EINVAL.
    pub(crate) fn new(point: &rpn::Point, is_interpreted: bool) -> Result<Self> {
        let pass = usize::try_from(point.pass_count)?;
        let max_hits = usize::try_from(point.max_hits)?;
        Ok(Self {
            hits: Word::new(pass.wrapping_add(DORMANT)),
            pass,
            last: Word::new(max_hits.saturating_sub(1)),
            max: Word::new(max_hits),
            max_hits,
            missed: Word::new(0),
            began: Word::new(0),
            replaced: Word::new(0),
            is_interpreted,
            detach_requested: Word::new(0),
        })
    }

    /// Begins to count hits and to run the program at them.
    pub(crate) fn begin(&self) {
        self.hits.store(0);
    }

    /// Stops further runs of the program. A run that has begun continues.
    pub(crate) fn end(&self) {
        self.max.store(0);
        self.last.store(0);
    }

    /// Counts a hit. Returns true if the program does not run at it.
    #[inline(always)]
    pub(crate) fn skips_hit(&self) -> bool {
        let hit = self.hits.add(1);
        // Wraps around to a very large number for the initial hits, and is biased before `begin()`.
        let nth = hit.wrapping_sub(self.pass);
        nth >= self.last.load() && self.is_past_last(nth)
    }

    /// Returns true if the program does not run at the hit with index `nth` after the first `pass`
    /// hits. `nth` is at least `last`, or huge before counting begins.
    #[cold]
    fn is_past_last(&self, nth: usize) -> bool {
        if nth >= DORMANT {
            return true;
        }
        let max = self.max.load();
        let is_past = match self.is_interpreted {
            // If not all runs have begun, `begin_run()` decides.
            true => self.began.load() >= max,
            false => nth >= max && (max == 0 || !self.replace_missed()),
        };
        if is_past || !self.is_interpreted && nth < max {
            self.request_detach();
        }
        is_past
    }

    /// Replaces a missed hit. Returns false if all missed hits have been replaced.
    fn replace_missed(&self) -> bool {
        let is_replaced = self.replaced.add(1) < self.missed();
        if !is_replaced {
            // Subtracts 1.
            self.replaced.add(usize::MAX);
        }
        is_replaced
    }

    /// Begins a run of an interpreted program that can no longer be missed. Returns false if all
    /// permitted runs have begun.
    #[inline(always)]
    pub(crate) fn begin_run(&self) -> bool {
        if !self.is_interpreted {
            return true;
        }
        let nth = self.began.add(1);
        nth < self.last.load() || self.begin_last_run(nth)
    }

    #[cold]
    fn begin_last_run(&self, nth: usize) -> bool {
        let is_allowed = nth < self.max.load();
        if !is_allowed {
            // Subtracts 1.
            self.began.add(usize::MAX);
        }
        self.request_detach();
        is_allowed
    }

    /// Counts a hit that did not run the program, as another program was running on the CPU.
    pub(crate) fn miss(&self) {
        self.missed.add(1);
    }

    /// Asks the work item to check if the point can be detached.
    #[cold]
    pub(crate) fn request_detach(&self) {
        if self.detach_requested.load() == 0 {
            self.detach_requested.store(1);
            worker::queue();
        }
    }

    /// Returns true if a check was requested and the program never runs again. Clears the request:
    /// the next check needs a new one.
    pub(crate) fn should_detach(&self) -> bool {
        self.detach_requested.swap(0) != 0 && self.is_used_up()
    }

    /// Returns the number of hits, including the initial hits that do not run the program.
    pub(crate) fn hits(&self) -> usize {
        self.hits.load()
    }

    /// Returns true if the program has run as often as it may.
    pub(crate) fn is_used_up(&self) -> bool {
        let max = self.max.load();
        if self.is_interpreted {
            return self.began.load() >= max;
        }
        let has_all = |hits| hits >= max && self.replaced.load() >= self.missed();
        max == 0 || self.hits().checked_sub(self.pass).is_some_and(has_all)
    }

    /// Returns the number of hits at which the program ran, or is running.
    pub(crate) fn runs(&self) -> usize {
        if self.is_interpreted {
            return self.began.load();
        }
        // Only interpreted programs remove their point. Others run at all these hits, except missed
        // ones.
        let hits = self.hits().saturating_sub(self.pass).min(self.max_hits);
        let missed = self.missed().saturating_sub(self.replaced.load());
        hits.saturating_sub(missed)
    }

    /// Returns the number of missed hits.
    pub(crate) fn missed(&self) -> usize {
        self.missed.load()
    }
}
