// SPDX-License-Identifier: GPL-2.0

//! Text of any length, for files that are written whole when they are opened.
//!
//! Contexts: process.

use kernel::fmt;
use kernel::fmt::Write;
use kernel::prelude::*;

/// Text that grows as it is written.
#[derive(Default)]
pub struct Lines(KVVec<u8>);

impl Lines {
    /// No text.
    pub const fn new() -> Self {
        Self(KVVec::new())
    }

    /// What has been written.
    pub fn into_bytes(self) -> KVVec<u8> {
        self.0
    }
}

impl Write for Lines {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        let added = self.0.extend_from_slice(s.as_bytes(), GFP_KERNEL);
        added.map_err(|_| fmt::Error)
    }
}
