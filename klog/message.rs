// SPDX-License-Identifier: GPL-2.0

//! Logging from Rust, with text formatted into a buffer of fixed size.
//!
//! Contexts: any, NMI included.
#![deny(unsafe_code)]

use kernel::fmt;

use crate::raw::handler;
use crate::raw::text_buf::with_text_buf;

/// Returns true if there is a handler, so that messages are not lost. Context: any.
#[inline(never)]
pub fn has_handler() -> bool {
    handler::is_active()
}

/// Logs formatted text, for [`klog!`](crate::klog!). Context: any.
pub fn print(args: fmt::Arguments<'_>) {
    if !handler::is_active() {
        return;
    }
    with_text_buf(|buf| {
        let mut text = Text::new(buf);
        // Ignores an error: the text was cut, or a value could not be formatted.
        let _ = fmt::Write::write_fmt(&mut text, args);
        handler::write(text.as_bytes());
    });
}

/// Text, cut where the buffer ends.
struct Text<'a> {
    buf: &'a mut [u8],
    len: usize,
}

impl<'a> Text<'a> {
    fn new(buf: &'a mut [u8]) -> Self {
        Self { buf, len: 0 }
    }

    /// Returns the text written so far.
    fn as_bytes(&self) -> &[u8] {
        self.buf.get(..self.len).unwrap_or_default()
    }
}

impl fmt::Write for Text<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = self.buf.get_mut(self.len..).unwrap_or_default();
        let fits = text.len().min(room.len());
        if let (Some(to), Some(from)) = (room.get_mut(..fits), text.as_bytes().get(..fits)) {
            to.copy_from_slice(from);
            // Cannot overflow: the text fits.
            self.len += fits;
        }
        match fits == text.len() {
            true => Ok(()),
            // Stops the formatting: the buffer is full.
            false => Err(fmt::Error),
        }
    }
}
