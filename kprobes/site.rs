// SPDX-License-Identifier: GPL-2.0

//! Probes on ftrace sites: there the instruction is a call that ftrace patches, and that can call us.
//!
//! Contexts: process, sleeps; with the engine's mutex.
#![deny(unsafe_code)]

use ferro_sys::code::ftrace_ops::FtraceHandler;
use ferro_sys::code::ftrace_ops::FtraceOps;
use ferro_sys::regs::Regs;
use kernel::prelude::*;

use crate::hit;

/// How long the call, or the NOP in its place, is.
pub(crate) const LEN: usize = 5;

/// What the handlers of a site may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Look and change registers.
    Look,
    /// Change where execution goes on, too, which only one user of ftrace at a time can on a function.
    Divert,
}

struct Called;

impl FtraceHandler for Called {
    #[inline(always)]
    fn call(ip: usize, _parent_ip: usize, regs: &mut Regs) {
        hit::site(ip, regs);
    }
}

static LOOKING: FtraceOps<Called> = FtraceOps::looking();
static DIVERTING: FtraceOps<Called> = FtraceOps::modifying();

impl Kind {
    /// Both.
    pub(crate) const ALL: [Self; 2] = [Self::Look, Self::Divert];

    fn ops(self) -> &'static FtraceOps<Called> {
        match self {
            Self::Look => &LOOKING,
            Self::Divert => &DIVERTING,
        }
    }

    /// Has us called from these sites. Errors: those of ftrace; nothing has changed then.
    pub(crate) fn add(self, sites: &[usize]) -> Result {
        if !sites.is_empty() {
            // From one that the other kind still has to take out we would be called twice.
            Self::ALL.iter().try_for_each(|kind| kind.ops().sweep())?;
        }
        self.ops().add(sites)
    }

    /// Has us called from these sites no longer. Errors: those of ftrace; then we still are.
    pub(crate) fn remove(self, sites: &[usize]) -> Result {
        self.ops().remove(sites)
    }

    /// There is no point at this site any more. We may be called from there for some time, without finding one.
    pub(crate) fn abandon(self, site: usize) {
        self.ops().abandon(&[site]);
    }
}

/// Has us called no longer at all, and waits until we are not.
pub(crate) fn close() {
    Kind::ALL.iter().for_each(|kind| kind.ops().close());
}
