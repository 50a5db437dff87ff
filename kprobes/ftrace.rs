// SPDX-License-Identifier: GPL-2.0

//! Probes on ftrace sites: there the instruction is a call that ftrace patches, and that can call us.
//!
//! Contexts: process, sleeps; with the engine's mutex.
#![deny(unsafe_code)]

use ferro_sys::code::ftrace_ops::FtraceOps;
use kernel::prelude::*;

use crate::hit::Hits;
use crate::raw::ftrace_sites;
use crate::raw::ftrace_sites::Caller;
use crate::raw::ftrace_sites::PostCaller;

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

static OBSERVING: FtraceOps<Caller<Hits>> = ftrace_sites::observing();
static IP_MODIFYING: FtraceOps<PostCaller<Hits>> = ftrace_sites::ip_modifying();

impl FtraceMode {
    /// Both.
    pub(crate) const ALL: [Self; 2] = [Self::Observe, Self::IpModify];

    /// Has us called from these sites. Errors: those of ftrace; nothing has changed then.
    pub(crate) fn add(self, sites: &[usize]) -> Result {
        if !sites.is_empty() {
            // From one that the other mode still has to take out we would be called twice.
            OBSERVING.sweep().and(IP_MODIFYING.sweep())?;
        }
        match self {
            Self::Observe => OBSERVING.add(sites),
            Self::IpModify => IP_MODIFYING.add(sites),
        }
    }

    /// Has us no longer called from these sites. Errors: those of ftrace; then we still are.
    pub(crate) fn remove(self, sites: &[usize]) -> Result {
        match self {
            Self::Observe => OBSERVING.remove(sites),
            Self::IpModify => IP_MODIFYING.remove(sites),
        }
    }

    /// There is no point at this site any more. We may be called from there for some time, without finding one.
    pub(crate) fn abandon(self, site: usize) {
        match self {
            Self::Observe => OBSERVING.abandon(&[site]),
            Self::IpModify => IP_MODIFYING.abandon(&[site]),
        }
    }
}

/// Has us no longer called at all, and waits until we are not.
pub(crate) fn close() {
    OBSERVING.close();
    IP_MODIFYING.close();
}
