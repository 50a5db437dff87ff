// SPDX-License-Identifier: GPL-2.0

//! Formatting into a buffer of fixed size.
#![deny(unsafe_code)]

use kernel::fmt;

/// Text, cut where the buffer ends.
pub(crate) struct Text<'a> {
    buf: &'a mut [u8],
    len: usize,
}

impl<'a> Text<'a> {
    pub(crate) fn new(buf: &'a mut [u8]) -> Self {
        Self { buf, len: 0 }
    }

    /// Returns the text written so far.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.buf.get(..self.len).unwrap_or_default()
    }
}

impl fmt::Write for Text<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = self.buf.get_mut(self.len..).unwrap_or_default();
        let fits = text.len().min(room.len());
        if let (Some(to), Some(from)) = (room.get_mut(..fits), text.as_bytes().get(..fits)) {
            to.copy_from_slice(from);
            // No overflow: the text fits.
            self.len += fits;
        }
        match fits == text.len() {
            true => Ok(()),
            // No later text would fit either.
            false => Err(fmt::Error),
        }
    }
}
