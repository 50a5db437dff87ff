// SPDX-License-Identifier: GPL-2.0

//! What was recorded from one CPU, and what was not.

#![deny(unsafe_code)]

use serde::Deserialize;
use serde::Serialize;

/// The counts of one CPU's buffer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Bytes written to the recording.
    pub bytes: u64,
    /// Finished sub-buffers that these bytes came from; unknown without control files.
    pub subbufs: u64,
    /// Finished sub-buffers that were overwritten before they could be copied.
    pub lost_subbufs: u64,
    /// The most finished sub-buffers that waited to be taken at once.
    #[serde(default)]
    pub max_ready: u64,
    /// Bytes of the unfinished sub-buffer at the end, contained in `bytes`.
    pub partial_bytes: u64,
    /// For a fast channel: records written to the recording.
    #[serde(default)]
    pub records: u64,
    /// For a fast channel: records that the kernel could not write meanwhile.
    #[serde(default)]
    pub lost_records: u64,
    /// For a fast channel: bytes that were overwritten before they could be copied, padding
    /// included.
    #[serde(default)]
    pub overwritten_bytes: u64,
    /// Warnings for the user about this CPU's file.
    pub warnings: Vec<String>,
}

impl Tally {
    /// Counts bytes.
    pub fn add_bytes(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(widen(bytes));
    }

    /// Records how many finished sub-buffers are waiting.
    pub fn note_ready(&mut self, subbufs: usize) {
        self.max_ready = self.max_ready.max(widen(subbufs));
    }

    /// Counts finished sub-buffers that were taken.
    pub fn add_subbufs(&mut self, subbufs: usize) {
        self.subbufs = self.subbufs.saturating_add(widen(subbufs));
    }

    /// Counts sub-buffers that were lost.
    pub fn add_lost(&mut self, subbufs: usize) {
        self.lost_subbufs = self.lost_subbufs.saturating_add(widen(subbufs));
    }

    /// Counts records of a fast channel, and their bytes with padding.
    pub fn add_records(&mut self, records: u64, bytes: u64) {
        self.records = self.records.saturating_add(records);
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// Adds what `other` counted.
    pub fn add(&mut self, other: &Tally) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.subbufs = self.subbufs.saturating_add(other.subbufs);
        self.lost_subbufs = self.lost_subbufs.saturating_add(other.lost_subbufs);
        self.max_ready = self.max_ready.max(other.max_ready);
        self.partial_bytes = self.partial_bytes.saturating_add(other.partial_bytes);
        self.records = self.records.saturating_add(other.records);
        self.lost_records = self.lost_records.saturating_add(other.lost_records);
        self.overwritten_bytes = self
            .overwritten_bytes
            .saturating_add(other.overwritten_bytes);
    }

    /// Adds a warning, once.
    pub fn warn(&mut self, warning: impl Into<String>) {
        let warning = warning.into();
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }
}

/// No `usize` of Linux is wider than 64 bits.
fn widen(value: usize) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}
