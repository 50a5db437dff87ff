// SPDX-License-Identifier: GPL-2.0

//! What a channel does when it is full.
#![deny(unsafe_code)]

/// What happens when no sub-buffer is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// New records are lost, until a reader has consumed a sub-buffer.
    NoOverwrite,
    /// The oldest sub-buffer is lost: a flight recorder.
    Overwrite,
}

impl Mode {
    /// Its name in files.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::NoOverwrite => "no-overwrite",
            Self::Overwrite => "overwrite",
        }
    }
}
