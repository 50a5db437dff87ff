// SPDX-License-Identifier: GPL-2.0

//! Behaviour of a full channel.
#![deny(unsafe_code)]

/// Behaviour of a channel when no sub-buffer is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Loses new records until a reader has consumed a sub-buffer.
    NoOverwrite,
    /// Overwrites the oldest sub-buffer: a flight recorder.
    Overwrite,
}

impl Mode {
    /// Returns the name used in files.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::NoOverwrite => "no-overwrite",
            Self::Overwrite => "overwrite",
        }
    }
}
