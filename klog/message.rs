// SPDX-License-Identifier: GPL-2.0

//! Logging from Rust.
//!
//! Contexts: any, NMI included.
#![deny(unsafe_code)]

use kernel::fmt;

use crate::raw::handler;
use crate::raw::text_buf::with_text_buf;
use crate::text::Text;

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
        // An error only means that the text was cut, or that a value could not be formatted.
        let _ = fmt::Write::write_fmt(&mut text, args);
        handler::write(text.as_bytes());
    });
}
