// SPDX-License-Identifier: GPL-2.0

//! How an exit or a hook is named from outside of the registry.
//!
//! Contexts: any.
#![deny(unsafe_code)]

use crate::raw::deferred_release::ExitId;

impl ExitId {
    /// As an exit in Rust is named in a change.
    pub(crate) fn handle(self) -> Handle {
        Handle {
            id: self.0,
            record: 0,
        }
    }
}

/// Which exit is meant: its number, and the address of its record, or 0.
#[derive(Clone, Copy)]
pub(crate) struct Handle {
    pub(crate) id: usize,
    pub(crate) record: usize,
}
