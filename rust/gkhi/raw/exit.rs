// SPDX-License-Identifier: GPL-2.0

//! How the registry calls exits in Rust.
//!
//! Contexts: process.

use ferro_sys::hook::typed;
use ferro_sys::hook::typed::Entry;
use ferro_sys::hook::typed::ExitOn;
use ferro_sys::hook::typed::Spec;
use ferro_sys::hook::Parts;
use kernel::prelude::*;

/// What the registry needs to call an exit in Rust.
pub(crate) fn parts_of<H: Spec, C: Entry, E: ExitOn<H, C>>(exit: &KBox<E>) -> Parts {
    // SAFETY: What is in a box stays where it is. `Builder` gives the box to the registry, which drops it when it has
    // deregistered the exit and no call of it is left. The registry compares the hook with what `H` says of it.
    unsafe { typed::parts_of::<H, C, E>(exit) }
}
