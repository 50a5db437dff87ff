// SPDX-License-Identifier: GPL-2.0

//! The consumer of the merged records.

#![deny(unsafe_code)]

use std::io;
use std::path::Path;

use super::format::Format;
use super::run::Counts;
use super::source::Event;

/// The output cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("{to}: cannot be written")]
pub struct WriteError {
    /// The file.
    pub to: String,
    /// The system's answer; a pipe whose reader has gone is broken.
    pub source: io::Error,
}

impl WriteError {
    /// The error for the file at `path`.
    pub fn file(path: &Path, source: io::Error) -> Self {
        let to = path.display().to_string();
        Self { to, source }
    }
}

/// Takes the merged records.
pub trait Sink {
    /// Takes a record of at least [`Format::len`] bytes, and its description.
    fn event(&mut self, event: &Event, format: &Format) -> Result<(), WriteError>;

    /// Writes the end of the output.
    fn end(&mut self, counts: &Counts) -> Result<(), WriteError>;
}
