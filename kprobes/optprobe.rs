// SPDX-License-Identifier: GPL-2.0

//! Optprobes: points with jumps in the place of breakpoints.
//!
//! A point is armed with a breakpoint first. Then:
//!
//! 1. `can_optimize.rs` finds that a jump may stand there. A detour is made, and every CPU is
//!    synchronised with its code. Hits of the breakpoint resume in the detour's copies of the
//!    instructions ([`Optprobe::Waiting`]). So no task enters the bytes that the jump is going to
//!    cover.
//! 2. The worker waits for a grace period of RCU tasks, without a lock. After it no task is in
//!    those bytes.
//! 3. If nothing has changed by then, the jump is placed ([`Optprobe::Placed`]).
//!
//! `optimize.rs` does that, `unoptimize.rs` removes jumps. This file has their state.
//!
//! A jump is removed at once, before the call that needs this returns, in these cases:
//!
//! - a probe in the bytes that the jump covers, enabled or not,
//! - a fault handler,
//! - the first post-handler, which needs another detour,
//! - no enabled probe.
//!
//! The detour is kept for the next time ([`Optprobe::Ready`]).
//!
//! After the last probe is unregistered, the jump stays until a work item removes many of them
//! together.
//!
//! A debugger that has written into a jump later restores the bytes that it found there. Such a
//! jump stays, and so does its point.
//!
//! Contexts: process; with the engine's mutex.
#![deny(unsafe_code)]

use ferro_sys::code::jump_site::JumpedSite;
use ferro_sys::code::jump_site::StoppedSite;

use crate::raw::detour::Detour;
use crate::raw::detour::DETOUR_ADDRESSES;
use crate::raw::grace_period::Since;

/// Number of points to look at, or jumps to place, before the engine's mutex and `text_mutex` are
/// released. At most one function is analysed in that time.
pub(crate) const AT_ONCE: usize = 64;

/// State of a point's jump.
pub(crate) enum Optprobe {
    /// Not analysed yet.
    Unknown,
    /// No jump is possible.
    Impossible,
    /// A jump is possible; no hit uses the detour.
    Ready(Detour),
    /// Hits of the breakpoint resume in the detour's copies.
    Waiting(Detour, Since),
    /// The jump is placed.
    Placed(Detour, JumpedSite),
    /// A breakpoint is in the place of the jump's first byte. Only while `text_mutex` is held.
    Unoptimizing(Detour, StoppedSite),
    /// The bytes that the jump covered are restored, but not every CPU is synchronised. Only while
    /// `text_mutex` is held.
    Restored(Detour),
}

impl Optprobe {
    pub(crate) fn detour(&self) -> Option<&Detour> {
        match self {
            Self::Unknown | Self::Impossible => None,
            Self::Ready(detour)
            | Self::Waiting(detour, _)
            | Self::Placed(detour, _)
            | Self::Unoptimizing(detour, _)
            | Self::Restored(detour) => Some(detour),
        }
    }

    /// Returns [`Detour::addresses`], or zeros.
    pub(crate) fn addresses(&self) -> [usize; DETOUR_ADDRESSES] {
        self.detour()
            .map_or([0; DETOUR_ADDRESSES], Detour::addresses)
    }

    /// Returns the number of bytes of the function that run in the detour instead, or 0.
    pub(crate) fn displaces(&self) -> usize {
        match self {
            Self::Waiting(detour, _)
            | Self::Placed(detour, _)
            | Self::Unoptimizing(detour, _)
            | Self::Restored(detour) => detour.displaced(),
            Self::Unknown | Self::Impossible | Self::Ready(_) => 0,
        }
    }

    pub(crate) fn take(&mut self) -> Self {
        core::mem::replace(self, Self::Unknown)
    }
}

/// Maximum number of detours that one synchronisation of the CPUs covers. A greater number would
/// delay the first of them.
pub(crate) const READY_MAX: usize = 16;

/// Progress of `registry::optimize()` through all points.
pub(crate) struct OptimizerPass {
    /// First address that was not looked at yet.
    pub(crate) next: usize,
    /// The addresses of points with new detours; the first `count` are valid.
    pub(crate) ready: [usize; READY_MAX],
    pub(crate) count: usize,
}

impl OptimizerPass {
    pub(crate) fn new() -> Self {
        Self {
            next: 0,
            ready: [0; READY_MAX],
            count: 0,
        }
    }

    /// Adds a point's address to `ready`. Returns true if there is room for another.
    pub(crate) fn note(&mut self, address: usize) -> bool {
        if let Some(to) = self.ready.get_mut(self.count) {
            *to = address;
            self.count += 1;
        }
        self.count < READY_MAX
    }
}
