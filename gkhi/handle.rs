// SPDX-License-Identifier: GPL-2.0

//! Handles of exits, as callers of the registry name them.
//!
//! Contexts: any.
#![deny(unsafe_code)]

use crate::raw::deferred_release::ExitId;

impl ExitId {
    /// Returns the handle of an exit in Rust.
    pub(crate) fn handle(self) -> Handle {
        Handle {
            id: self.0,
            record: 0,
        }
    }
}

/// Handle of an exit: its number, and the address of its record, or 0.
#[derive(Clone, Copy)]
pub(crate) struct Handle {
    pub(crate) id: usize,
    pub(crate) record: usize,
}
