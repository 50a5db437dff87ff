// SPDX-License-Identifier: GPL-2.0

//! Probes on ftrace sites, which ftrace patches into calls of the engine.
//!
//! Contexts: process, sleeps; with the engine's mutex.
#![deny(unsafe_code)]

use ferro_sys::code::ftrace_data::FtraceData;
use ferro_sys::code::ftrace_ops::FtraceOps;
use kernel::prelude::*;
use kernel::sync::Arc;

use crate::hit::Hits;
use crate::raw::ftrace_sites;
use crate::raw::ftrace_sites::Caller;
use crate::raw::ftrace_sites::Observed;
use crate::raw::ftrace_sites::PostCaller;
use crate::raw::grace_period::TasksPeriod;
use crate::raw::probe_point::Point;

/// Length of the call, or of the NOP in its place.
pub(crate) const SITE_LEN: usize = 5;

/// Permissions of the handlers at a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FtraceMode {
    /// Read and change registers.
    Observe,
    /// Also change the instruction pointer. ftrace allows one such user for each function at a
    /// time.
    IpModify,
}

// The names, and so the symbols, are mainline's: the kernel's livepatch selftests search ftrace's
// lists for these symbols to find out whether probes at entries use ftrace.
#[allow(non_upper_case_globals)]
static kprobe_ftrace_ops: FtraceData<Caller<Hits>> = ftrace_sites::observing();
#[allow(non_upper_case_globals)]
static kprobe_ipmodify_ops: FtraceOps<PostCaller<Hits>> = ftrace_sites::ip_modifying();

impl FtraceMode {
    /// Both modes.
    pub(crate) const ALL: [Self; 2] = [Self::Observe, Self::IpModify];
}

/// The modes that have no sites left.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Idle {
    observed: bool,
    ip_modify: bool,
}

impl Idle {
    /// Unregisters the ftrace ops of these modes, unless they have sites again. Waits for all
    /// tasks; adding a site waits for this.
    pub(crate) fn close(self) {
        if self.observed {
            kprobe_ftrace_ops.close_if_idle();
        }
        if self.ip_modify {
            kprobe_ipmodify_ops.close_if_idle();
        }
    }
}

/// The sites from which ftrace calls the engine.
pub(crate) struct FtraceCalls {
    observed: Observed<Hits>,
    /// Number of sites in the other mode.
    ip_modify: usize,
    /// Sites were added in that mode since its ops were last closed.
    ip_modify_open: bool,
}

impl FtraceCalls {
    /// Creates an empty set.
    pub(crate) fn new() -> Self {
        Self {
            observed: Observed::new(&kprobe_ftrace_ops),
            ip_modify: 0,
            ip_modify_open: false,
        }
    }

    /// Adds these sites to ftrace. `point` returns the point of a site. Errors: ftrace's; nothing
    /// has changed then.
    pub(crate) fn add<'a>(
        &mut self,
        mode: FtraceMode,
        sites: &[usize],
        point: impl Fn(usize) -> Option<&'a Arc<Point>>,
    ) -> Result {
        if !sites.is_empty() {
            // A site that the other mode has yet to remove would call the engine twice.
            self.observed.sweep().and(kprobe_ipmodify_ops.sweep())?;
        }
        match mode {
            FtraceMode::Observe => {
                let mut observed = KVVec::with_capacity(sites.len(), GFP_KERNEL)?;
                for site in sites {
                    observed.push(point(*site).ok_or(EINVAL)?, GFP_KERNEL)?;
                }
                self.observed.add(observed.iter().copied())
            }
            FtraceMode::IpModify => {
                // Set even if `add()` fails: it may fail late.
                self.ip_modify_open = true;
                kprobe_ipmodify_ops.add(sites)?;
                self.ip_modify = self.ip_modify.saturating_add(sites.len());
                Ok(())
            }
        }
    }

    /// Removes these sites from ftrace. Errors: ftrace's; the sites still call the engine then.
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

    /// Abandons a site at which no probe is to be called. ftrace may still call the engine there
    /// for some time. Such a call finds a point without probes, or no point.
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

    /// Returns true if [`Self::release`] has work to do after a grace period of RCU tasks.
    pub(crate) fn any_left(&self) -> bool {
        self.observed.any_left() || self.is_ip_modify_idle()
    }

    /// Releases the points that this period covers. The caller has to close the result without the
    /// engine's mutex.
    pub(crate) fn release(&mut self, period: &TasksPeriod) -> Idle {
        let idle = Idle {
            observed: self.observed.release(period),
            ip_modify: self.is_ip_modify_idle(),
        };
        self.ip_modify_open &= !idle.ip_modify;
        idle
    }

    /// Unregisters both ops, and waits until ftrace no longer calls the engine.
    pub(crate) fn close(&mut self) {
        self.observed.close();
        kprobe_ipmodify_ops.close();
    }
}
