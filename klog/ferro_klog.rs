// SPDX-License-Identifier: GPL-2.0

//! klog: trace statements that may stay in the code, with or without a listener.
//!
//! Implements the functions of `<linux/klog.h>`, and their counterparts for Rust: [`klog!`],
//! [`write()`] and [`Registration`]. See `Documentation/klog.rst`.
//!
//! `exports.rs` has the functions for C, `raw/` the current handler and the per-CPU data,
//! `message.rs` and `registration.rs` the interface for Rust clients.
//!
//! Contexts: logging any, NMI included, without locks; registering process.

/// Prefix of this crate's log messages.
const __LOG_PREFIX: &[u8] = b"ferro_klog\0";

mod error;
mod exports;
mod message;
mod raw;
mod registration;
#[cfg(CONFIG_KLOG_RUST_KUNIT_TEST)]
mod tests;

pub use error::Error;
pub use message::has_handler;
pub use message::print;
pub use raw::handler::write;
pub use raw::handler::Handler;
pub use raw::text_buf::missed;
pub use registration::Registration;

/// Logs formatted text, as `klog_printk()` does in C.
///
/// The text has no NUL at its end and is cut after 1023 bytes. Nothing is formatted if there is no
/// handler. Context: any.
///
/// # Examples
///
/// ```ignore
/// klog!("queue {} holds {} requests\n", queue.name(), queue.len());
/// ```
#[macro_export]
macro_rules! klog {
    ($($arg:tt)*) => {
        $crate::print(::kernel::prelude::fmt!($($arg)*))
    };
}
