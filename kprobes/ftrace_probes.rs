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
use crate::raw::ftrace_sites;
use crate::raw::ftrace_sites::Caller;
use crate::raw::ftrace_sites::Observed;
use crate::raw::ftrace_sites::PostCaller;
use crate::raw::tasks_rcu::TasksPeriod;
use crate::registered_point::PointEntry;

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

/// Of which modes there are no sites any more.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Idle {
    observed: bool,
    ip_modify: bool,
}

impl Idle {
    /// We are no users of ftrace any more, unless there are sites by now. Waits for all tasks, and who adds a site waits for this.
    pub(crate) fn close(self) {
        if self.observed {
            kprobe_ftrace_ops.close_if_idle();
        }
        if self.ip_modify {
            kprobe_ipmodify_ops.close_if_idle();
        }
    }
}

/// The sites that ftrace calls us from.
pub(crate) struct FtraceCalls {
    observed: Observed<Hits>,
    /// How many there are of the other mode.
    ip_modify: usize,
    /// There have been some since it was last told to be closed.
    ip_modify_open: bool,
}

impl FtraceCalls {
    /// None yet.
    pub(crate) fn new() -> Self {
        Self {
            observed: Observed::new(&kprobe_ftrace_ops),
            ip_modify: 0,
            ip_modify_open: false,
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
            FtraceMode::IpModify => {
                // Also if it fails late.
                self.ip_modify_open = true;
                kprobe_ipmodify_ops.add(sites)?;
                self.ip_modify = self.ip_modify.saturating_add(sites.len());
                Ok(())
            }
        }
    }

    /// Has us no longer called from these sites. Errors: those of ftrace; then we still are.
    pub(crate) fn remove(&mut self, mode: FtraceMode, sites: &[usize]) -> Result {
        match mode {
            FtraceMode::Observe => self.observed.remove(sites),
            FtraceMode::IpModify => {
                kprobe_ipmodify_ops.remove(sites)?;
                self.ip_modify = self.ip_modify.saturating_sub(sites.len());
                Ok(())
            }
        }
    }

    /// Nothing is to be called at this site any more. We may be for some time, with a point without probes or without finding one.
    pub(crate) fn abandon(&mut self, mode: FtraceMode, site: usize) {
        match mode {
            FtraceMode::Observe => self.observed.abandon(site),
            FtraceMode::IpModify => {
                kprobe_ipmodify_ops.abandon(&[site]);
                self.ip_modify = self.ip_modify.saturating_sub(1);
            }
        }
    }

    fn is_ip_modify_idle(&self) -> bool {
        self.ip_modify_open && self.ip_modify == 0
    }

    /// Whether [`Self::release`] has something to do after a grace period of RCU tasks.
    pub(crate) fn any_left(&self) -> bool {
        self.observed.any_left() || self.is_ip_modify_idle()
    }

    /// Gives up the points that this period was long enough for. What it returns is to be closed without the engine's mutex.
    pub(crate) fn release(&mut self, period: &TasksPeriod) -> Idle {
        let idle = Idle {
            observed: self.observed.release(period),
            ip_modify: self.is_ip_modify_idle(),
        };
        self.ip_modify_open &= !idle.ip_modify;
        idle
    }

    /// Has us no longer called at all, and waits until we are not.
    pub(crate) fn close(&mut self) {
        self.observed.close();
        kprobe_ipmodify_ops.close();
    }
}
