// SPDX-License-Identifier: GPL-2.0

//! What is registered.
//!
//! `batch.rs` registers and unregisters, `arming.rs` puts breakpoints there and takes them away, `optprobe.rs` and
//! `optimize.rs` replace them by jumps, `reclaim.rs` gives up points whose probes or code have gone.
//!
//! Contexts: process, sleeps; with the engine's mutex. Locks inside of it, outermost first: CPU hotplug, jump labels,
//! `text_mutex`.
#![deny(unsafe_code)]

use kernel::prelude::*;
use kernel::rbtree::RBTree;
use kernel::sync::Arc;

use crate::ftrace_probes::FtraceCalls;
use crate::optimize::Pass;
use crate::probe_point::Point;
use crate::refused::Refused;
use crate::registered_point::PointEntry;
use crate::registered_point::PointList;
use crate::registered_point::PointMaps;

/// How many jumps go at once, with the same synchronisations.
const LEAVING: usize = 1024;

/// What is registered.
pub(crate) struct Engine {
    pub(crate) maps: PointMaps,
    /// By address.
    pub(crate) points: RBTree<usize, KBox<PointEntry>>,
    /// By the address of the `struct kprobe`.
    pub(crate) probes: RBTree<usize, Arc<Point>>,
    /// Points whose code has gone; their probes may still be registered.
    pub(crate) gone: PointList,
    /// Points without probes, whose copies may still be running.
    pub(crate) retired: PointList,
    /// Those of them for which a grace period of RCU tasks is going on.
    pub(crate) waiting: PointList,
    /// One is, after which `registry::reap()` is called.
    pub(crate) is_reap_due: bool,
    pub(crate) ftrace: FtraceCalls,
    /// How many points ftrace calls us from.
    pub(crate) called: usize,
    /// Room for all of their addresses.
    pub(crate) list: KVVec<usize>,
    /// Breakpoints are there.
    pub(crate) enabled: bool,
    /// Jumps are wanted in their place.
    pub(crate) optimises: bool,
    /// There may be points whose breakpoints could be replaced by jumps, and `registry::optimise()` is going to look.
    pub(crate) jumps_due: bool,
    /// How far it is.
    pub(crate) pass: Option<Pass>,
    /// There was no memory for one of them.
    pub(crate) jumps_failed: bool,
    /// There may be points whose last probes have gone and whose jumps are to go, from this address on.
    pub(crate) idle_from: Option<usize>,
    /// How many points have a detour in use.
    pub(crate) detours: usize,
    /// What was refused lately.
    pub(crate) refused: Refused,
    /// Room for the addresses of some of them.
    pub(crate) leaving: KVVec<usize>,
}

impl Engine {
    /// Nothing is registered. Errors: -EBUSY if there is an engine already.
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
            refused: Refused::default(),
            leaving: KVVec::with_capacity(LEAVING, GFP_KERNEL)?,
        })
    }

    /// Whether there is a point at this address, without probes.
    pub(crate) fn is_empty_point(&self, address: usize) -> bool {
        let entry = self.points.get(&address);
        entry.is_some_and(|entry| entry.point.probes.is_empty())
    }

    /// The address of the first point at or after `from`.
    pub(crate) fn next_point(&self, from: usize) -> Option<usize> {
        self.points
            .cursor_lower_bound(&from)
            .map(|c| *c.current().0)
    }
}
