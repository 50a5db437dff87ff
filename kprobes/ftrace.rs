// SPDX-License-Identifier: GPL-2.0

//! Probes on ftrace sites: there the instruction is a call that ftrace patches, and that can call us.
//!
//! Contexts: process, sleeps; with the engine's mutex.
#![deny(unsafe_code)]

use ferro_sys::code::ftrace_data::FtraceData;
use ferro_sys::code::ftrace_ops::FtraceOps;
use kernel::prelude::*;
use kernel::rbtree::RBTree;

use crate::hit::Hits;
use crate::point_entry::PointEntry;
use crate::raw::ftrace_sites;
use crate::raw::ftrace_sites::Caller;
use crate::raw::ftrace_sites::Observed;
use crate::raw::ftrace_sites::PostCaller;
use crate::raw::reap::TasksPeriod;

/// How long the call, or the NOP in its place, is.
pub(crate) const SITE_LEN: usize = 5;

/// What the handlers of a site may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FtraceMode {
    /// Look and change registers.
    Observe,
    /// Change where execution goes on, too, which only one user of ftrace at a time can on a function.
    IpModify,
}

// The names are mainline's, in the symbols as well: the kernel's livepatch selftests look there for whether probes at entries are
// users of ftrace.
#[allow(non_upper_case_globals)]
static kprobe_ftrace_ops: FtraceData<Caller<Hits>> = ftrace_sites::observing();
#[allow(non_upper_case_globals)]
static kprobe_ipmodify_ops: FtraceOps<PostCaller<Hits>> = ftrace_sites::ip_modifying();

impl FtraceMode {
    /// Both.
    pub(crate) const ALL: [Self; 2] = [Self::Observe, Self::IpModify];
}

/// The sites that ftrace calls us from.
pub(crate) struct FtraceCalls {
    observed: Observed<Hits>,
}

impl FtraceCalls {
    /// None yet.
    pub(crate) fn new() -> Self {
        Self {
            observed: Observed::new(&kprobe_ftrace_ops),
        }
    }

    /// Has us called from the sites of these points. Errors: those of ftrace; nothing has changed then.
    pub(crate) fn add(
        &mut self,
        mode: FtraceMode,
        sites: &[usize],
        points: &RBTree<usize, KBox<PointEntry>>,
    ) -> Result {
        if !sites.is_empty() {
            // From one that the other mode still has to take out we would be called twice.
            self.observed.sweep().and(kprobe_ipmodify_ops.sweep())?;
        }
        match mode {
            FtraceMode::Observe => {
                let mut observed = KVVec::with_capacity(sites.len(), GFP_KERNEL)?;
                for site in sites {
                    let entry = points.get(site).ok_or(EINVAL)?;
                    observed.push(&entry.point, GFP_KERNEL)?;
                }
                self.observed.add(observed.iter().copied())
            }
            FtraceMode::IpModify => kprobe_ipmodify_ops.add(sites),
        }
    }

    /// Has us no longer called from these sites. Errors: those of ftrace; then we still are.
    pub(crate) fn remove(&mut self, mode: FtraceMode, sites: &[usize]) -> Result {
        match mode {
            FtraceMode::Observe => self.observed.remove(sites),
            FtraceMode::IpModify => kprobe_ipmodify_ops.remove(sites),
        }
    }

    /// Nothing is to be called at this site any more. We may be for some time, with a point without probes or without finding one.
    pub(crate) fn abandon(&mut self, mode: FtraceMode, site: usize) {
        match mode {
            FtraceMode::Observe => self.observed.abandon(site),
            FtraceMode::IpModify => kprobe_ipmodify_ops.abandon(&[site]),
        }
    }

    /// Whether [`Self::release`] has something to do after a grace period of RCU tasks.
    pub(crate) fn any_left(&self) -> bool {
        self.observed.any_left() || kprobe_ipmodify_ops.is_idle()
    }

    /// Gives up the points that this period was long enough for. When there are none any more we are no user of ftrace.
    pub(crate) fn release(&mut self, period: &TasksPeriod) {
        self.observed.release(period);
        kprobe_ipmodify_ops.close_if_idle();
    }

    /// Has us no longer called at all, and waits until we are not.
    pub(crate) fn close(&mut self) {
        self.observed.close();
        kprobe_ipmodify_ops.close();
    }
}
