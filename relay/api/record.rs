// SPDX-License-Identifier: GPL-2.0

//! A record that is being written in place.
#![deny(unsafe_code)]

use crate::raw::buf::Room;

/// The bytes of a record, from the first to the last.
pub struct Record<'a> {
    room: &'a mut Room,
    at: usize,
}

impl<'a> Record<'a> {
    pub(crate) fn new(room: &'a mut Room) -> Self {
        Self { room, at: 0 }
    }

    /// Bytes that are still free.
    pub fn left(&self) -> usize {
        self.room.len().saturating_sub(self.at)
    }

    /// Appends `bytes`; false, and nothing is written, if they do not fit.
    #[inline]
    pub fn put(&mut self, bytes: &[u8]) -> bool {
        let fits = self.room.put(self.at, bytes);
        if fits {
            // No overflow: it fits.
            self.at += bytes.len();
        }
        fits
    }

    /// How many bytes have been put.
    pub(crate) fn len(&self) -> usize {
        self.at
    }
}
