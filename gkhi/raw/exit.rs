// SPDX-License-Identifier: GPL-2.0

//! Calls of exits in Rust by the registry.
//!
//! Contexts: process.

use ferro_sys::hook::typed;
use ferro_sys::hook::typed::Entry;
use ferro_sys::hook::typed::ExitOn;
use ferro_sys::hook::typed::Spec;
use ferro_sys::hook::Parts;
use kernel::prelude::*;

/// Returns the parts by which the registry calls an exit in Rust.
pub(crate) fn parts_of<H: Spec, C: Entry, E: ExitOn<H, C>>(exit: &KBox<E>) -> Parts {
    // SAFETY: The contents of a box do not move. `Builder` gives the box to the registry, which
    // drops it after the exit is deregistered and its last call has returned. The registry compares
    // the hook with the description in `H`.
    unsafe { typed::parts_of::<H, C, E>(exit) }
}
