// SPDX-License-Identifier: GPL-2.0

//! A record being written in place.
#![deny(unsafe_code)]

use crate::raw::buf::Room;

/// Bytes of a record, filled from the first to the last.
pub struct Record<'a> {
    room: &'a mut Room,
    at: usize,
}

impl<'a> Record<'a> {
    pub(crate) fn new(room: &'a mut Room) -> Self {
        Self { room, at: 0 }
    }

    /// Returns the number of free bytes.
    pub fn left(&self) -> usize {
        self.room.len().saturating_sub(self.at)
    }

    /// Appends `bytes`. Returns false and writes nothing if they do not fit.
    #[inline]
    pub fn put(&mut self, bytes: &[u8]) -> bool {
        let fits = self.room.put(self.at, bytes);
        if fits {
            // Cannot overflow: the bytes fit.
            self.at += bytes.len();
        }
        fits
    }

    /// Returns the number of bytes written.
    pub(crate) fn len(&self) -> usize {
        self.at
    }
}
