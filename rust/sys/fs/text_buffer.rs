// SPDX-License-Identifier: GPL-2.0

//! Text of any length, for files that are written completely at open().
//!
//! Contexts: process.

use kernel::fmt;
use kernel::fmt::Write;
use kernel::prelude::*;

// RUST-KERNEL: `kernel::seq_file` prints into a file that C has opened; ours until it can open one.
/// Text buffer that grows on writes.
#[derive(Default)]
pub struct TextBuffer(KVVec<u8>);

impl TextBuffer {
    /// Makes an empty buffer.
    pub const fn new() -> Self {
        Self(KVVec::new())
    }

    /// Returns the written bytes.
    pub fn into_bytes(self) -> KVVec<u8> {
        self.0
    }
}

impl Write for TextBuffer {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        let added = self.0.extend_from_slice(s.as_bytes(), GFP_KERNEL);
        added.map_err(|_| fmt::Error)
    }
}
