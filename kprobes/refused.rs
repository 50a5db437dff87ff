// SPDX-License-Identifier: GPL-2.0

//! Log of the latest probes that were refused, with the reason: an errno does not tell the rule.
//! debugfs `kprobes/refused` shows it.
//!
//! These lines are not in the kernel log: a user with the right to add probes could fill it.
//!
//! Contexts: process, sleeps; with the engine's mutex.
#![deny(unsafe_code)]

use kernel::prelude::*;

/// Number of lines to keep.
const KEPT: usize = 64;

/// Lines, the latest last.
#[derive(Default)]
pub(crate) struct Refused {
    lines: KVVec<KVVec<u8>>,
}

impl Refused {
    /// Appends a line, unless it repeats the last one. The oldest line makes room for it.
    pub(crate) fn push(&mut self, line: KVVec<u8>) {
        if self.lines.last() == Some(&line) {
            return;
        }
        if self.lines.len() >= KEPT {
            // At least one line exists.
            let _ = self.lines.remove(0);
        }
        // The line is lost if there is no memory.
        let _ = self.lines.push(line, GFP_KERNEL);
    }

    /// Returns all lines in one text. Errors: -ENOMEM.
    pub(crate) fn text(&self) -> Result<KVVec<u8>> {
        let mut text = KVVec::new();
        for line in &self.lines {
            text.extend_from_slice(line, GFP_KERNEL)?;
        }
        Ok(text)
    }
}
