// SPDX-License-Identifier: GPL-2.0

//! A record that waits until the probed instruction is executed.
//!
//! Contexts: any, NMI included.
#![deny(unsafe_code)]

use ferro_core::rpn::FIELDS_LEN;
use ferro_core::rpn::LOG_MAX;
use ferro_core::rpn::RECORD_LEN;

/// The most bytes of a record: with all fields, a full log with an exception after it, and a full trace.
const BYTES: usize = RECORD_LEN + FIELDS_LEN + 2 * LOG_MAX as usize + 32;

/// A CPU's record. Memory that is all zero has none.
pub(crate) struct Pending {
    /// Whose it is: a point's number; 0 is nobody's.
    owner: usize,
    len: usize,
    bytes: [u8; BYTES],
}

impl Pending {
    /// Forgets the record.
    #[inline(always)]
    pub(crate) fn clear(&mut self) {
        self.owner = 0;
    }

    /// Begins a record of this point's.
    #[inline(always)]
    pub(crate) fn begin(&mut self, owner: usize) {
        (self.owner, self.len) = (owner, 0);
    }

    /// Appends to the record. What does not fit is left out, which nothing is.
    #[inline(always)]
    pub(crate) fn put(&mut self, piece: &[u8]) {
        let end = self.len.saturating_add(piece.len());
        if let Some(place) = self.bytes.get_mut(self.len..end) {
            place.copy_from_slice(piece);
            self.len = end;
        }
    }

    /// Takes the record, if it is this point's.
    #[inline(always)]
    pub(crate) fn take(&mut self, owner: usize) -> Option<&[u8]> {
        if self.owner != owner {
            return None;
        }
        self.owner = 0;
        self.bytes.get(..self.len)
    }
}
