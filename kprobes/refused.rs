// SPDX-License-Identifier: GPL-2.0

//! The latest probes that were refused, and why: an errno cannot say which rule it was. debugfs `kprobes/refused` shows them.
//!
//! The log has none of that: whoever may add probes could fill it.
//!
//! Contexts: process, sleeps; with the engine's mutex.
#![deny(unsafe_code)]

use kernel::prelude::*;

/// How many are kept.
const KEPT: usize = 64;

/// Lines, the latest last.
#[derive(Default)]
pub(crate) struct Refused {
    lines: KVVec<KVVec<u8>>,
}

impl Refused {
    /// Keeps a line, unless it is the one before, in place of the oldest.
    pub(crate) fn push(&mut self, line: KVVec<u8>) {
        if self.lines.last() == Some(&line) {
            return;
        }
        if self.lines.len() >= KEPT {
            // There is one.
            let _ = self.lines.remove(0);
        }
        // Without memory there is no line.
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
