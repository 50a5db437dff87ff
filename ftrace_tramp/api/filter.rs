// SPDX-License-Identifier: GPL-2.0

//! Filter: the functions that a client asks for.
#![deny(unsafe_code)]

use kernel::prelude::*;

use crate::error::TraceError;

/// Maximum length of a name or a pattern in bytes. No symbol is longer.
const PATTERN_MAX: usize = 511;

/// Functions by their names, by patterns and by addresses; all matches count.
#[derive(Clone, Copy)]
pub(crate) struct Filter<'a> {
    pub(crate) names: &'a [&'a CStr],
    pub(crate) globs: &'a [&'a CStr],
    pub(crate) addresses: &'a [usize],
}

impl Filter<'_> {
    pub(crate) const NONE: Self = Self {
        names: &[],
        globs: &[],
        addresses: &[],
    };

    /// Returns the names and patterns.
    pub(crate) fn patterns(&self) -> impl Iterator<Item = &CStr> {
        Iterator::chain(self.names.iter(), self.globs).copied()
    }

    /// Refuses text that ftrace would parse as something else.
    pub(crate) fn check(&self) -> Result<(), TraceError> {
        if self.names.is_empty() && self.globs.is_empty() && self.addresses.is_empty() {
            return Err(TraceError::NoFilter);
        }
        let names = self.names.iter().all(|name| is_pattern(name, false));
        let globs = self.globs.iter().all(|glob| is_pattern(glob, true));
        match names && globs {
            true => Ok(()),
            false => Err(TraceError::BadPattern),
        }
    }
}

/// Returns true if a text is a name, or a pattern if `wild`. ftrace parses a leading number as an
/// index, `!` as a removal, and the text after `:` as a command.
fn is_pattern(text: &CStr, wild: bool) -> bool {
    let fits = |byte: &u8| match byte {
        b':' | b'!' | b'\\' => false,
        b'*' | b'?' | b'[' | b']' => wild,
        byte => byte.is_ascii_graphic(),
    };
    let bytes = text.to_bytes();
    let starts = bytes.first().is_some_and(|byte| !byte.is_ascii_digit());
    starts && bytes.len() <= PATTERN_MAX && bytes.iter().all(fits)
}
