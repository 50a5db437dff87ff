// SPDX-License-Identifier: GPL-2.0

//! Exits that are no longer registered, and may still be called.
//!
//! Contexts: process.
#![deny(unsafe_code)]

use ferro_sys::hook::AtRest;
use ferro_sys::hook::Note;
use kernel::prelude::*;

use crate::exit_entry::ExitEntry;

/// An exit that is no longer registered. It is here until what it owns has been dropped: its module cannot go before.
pub(crate) struct Leaving {
    pub(crate) id: usize,
    pub(crate) exit: ExitEntry,
    pub(crate) stage: Stage,
    /// To have it dropped by; none if its owner has forgotten it.
    pub(crate) note: Option<KBox<Note>>,
}

#[derive(PartialEq, Eq)]
pub(crate) enum Stage {
    /// Whoever deregistered it waits until it is not called.
    Waiting,
    /// It has been waited for, and a call of it sleeps where it must not, or is the caller.
    Abandoned,
    /// It was abandoned and was at rest then, as it should still be after a wait.
    Resting(AtRest),
    /// No call is left, and nobody is on the way back from one.
    Quiet,
    /// What it owns is being dropped.
    Dropping,
}
