// SPDX-License-Identifier: GPL-2.0

//! State of the engine: the registered probes and points.
//!
//! `batch.rs` registers and unregisters, `arming.rs` arms and disarms, `optimize.rs` places jumps
//! and `optprobe.rs` removes them, `reclaim.rs` frees points whose probes or code are gone.
//!
//! Contexts: process, sleeps; with the engine's mutex. Locks inside of it, outermost first: CPU
//! hotplug, jump labels, `text_mutex`.
#![deny(unsafe_code)]

use kernel::prelude::*;
use kernel::rbtree::RBTree;
use kernel::sync::Arc;

use crate::error::RefusedLog;
use crate::ftrace_probes::FtraceCalls;
use crate::optimize::Pass;
use crate::raw::probe_point::Point;
use crate::registered_point::PointEntry;
use crate::registered_point::PointList;
use crate::registered_point::PointMaps;

/// Number of jumps to remove at once, with the same synchronisations.
const LEAVING: usize = 1024;

/// State of the engine.
pub(crate) struct Engine {
    pub(crate) maps: PointMaps,
    /// By address.
    pub(crate) points: RBTree<usize, KBox<PointEntry>>,
    /// By the address of the `struct kprobe`.
    pub(crate) probes: RBTree<usize, Arc<Point>>,
    /// Points in code that was freed; their probes may still be registered.
    pub(crate) gone: PointList,
    /// Points without probes; their copies may still be running.
    pub(crate) retired: PointList,
    /// Retired points with a grace period of RCU tasks that has begun.
    pub(crate) waiting: PointList,
    /// Such a period has begun; `registry::reap()` is called after it.
    pub(crate) is_reap_due: bool,
    pub(crate) ftrace: FtraceCalls,
    /// Number of points from which ftrace calls the engine.
    pub(crate) called: usize,
    /// Room for the addresses of all these points.
    pub(crate) list: KVVec<usize>,
    /// Breakpoints are enabled globally.
    pub(crate) enabled: bool,
    /// Jump optimization is on.
    pub(crate) optimises: bool,
    /// There may be points to optimize, and `registry::optimise()` is going to look for them.
    pub(crate) jumps_due: bool,
    /// Its progress.
    pub(crate) pass: Option<Pass>,
    /// There was no memory for one of the detours.
    pub(crate) jumps_failed: bool,
    /// Points without probes and with jumps to remove may be at this address or above.
    pub(crate) idle_from: Option<usize>,
    /// Number of points that use a detour.
    pub(crate) detours: usize,
    /// The latest refused probes.
    pub(crate) refused: RefusedLog,
    /// Room for addresses of points with jumps to remove.
    pub(crate) leaving: KVVec<usize>,
}

impl Engine {
    /// Creates the state, without probes. Errors: -EBUSY if there is an engine already.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self {
            maps: PointMaps::new()?,
            points: RBTree::new(),
            probes: RBTree::new(),
            gone: PointList::new(),
            retired: PointList::new(),
            waiting: PointList::new(),
            is_reap_due: false,
            ftrace: FtraceCalls::new(),
            called: 0,
            list: KVVec::new(),
            enabled: true,
            optimises: true,
            jumps_due: false,
            pass: None,
            jumps_failed: false,
            idle_from: None,
            detours: 0,
            refused: RefusedLog::default(),
            leaving: KVVec::with_capacity(LEAVING, GFP_KERNEL)?,
        })
    }

    /// Returns true if the point at this address has no probes.
    pub(crate) fn is_empty_point(&self, address: usize) -> bool {
        let entry = self.points.get(&address);
        entry.is_some_and(|entry| entry.point.probes.is_empty())
    }

    /// Returns the address of the first point at or after `from`.
    pub(crate) fn next_point(&self, from: usize) -> Option<usize> {
        self.points
            .cursor_lower_bound(&from)
            .map(|c| *c.current().0)
    }
}
