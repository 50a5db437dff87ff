// SPDX-License-Identifier: GPL-2.0

//! Exits that have been deregistered and may still be running.
//!
//! Contexts: process.
#![deny(unsafe_code)]

use ferro_sys::hook::AtRest;
use ferro_sys::hook::DeferredRelease;
use kernel::prelude::*;

use crate::exit_entry::ExitEntry;

/// A deregistered exit. It stays here until its object has been dropped; its module cannot be freed
/// before.
pub(crate) struct RetiredExit {
    pub(crate) id: usize,
    pub(crate) exit: ExitEntry,
    pub(crate) stage: Stage,
    /// Note by which its drop is deferred; `None` if its owner has forgotten it.
    pub(crate) release: Option<KBox<DeferredRelease>>,
}

#[derive(PartialEq, Eq)]
pub(crate) enum Stage {
    /// The task that deregistered the exit waits for its calls.
    Quiescing,
    /// The wait is over, but a call of the exit sleeps where it must not, or is the caller.
    Busy,
    /// The exit was abandoned and was at rest then; another wait has to confirm it.
    Resting(AtRest),
    /// No call is left, and no CPU is returning from one.
    Quiesced,
    /// The object of the exit is being dropped.
    Dropping,
}
