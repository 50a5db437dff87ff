// SPDX-License-Identifier: GPL-2.0

//! klog: trace statements that may stay in the code, whether or not anybody listens.
//!
//! The functions of `<linux/klog.h>`, and their like for Rust: [`klog!`], [`write`] and
//! [`Registration`]. See `Documentation/klog.rst`.
//!
//! Contexts: logging anywhere, NMI included; registering in process context. There are no locks.

/// Prefix of what this crate prints.
const __LOG_PREFIX: &[u8] = b"ferro_klog\0";

mod error;
mod ffi;
#[cfg(CONFIG_KLOG_RUST_KUNIT_TEST)]
mod tests;
mod text;

pub use error::Error;
pub use ffi::missed;
pub use ffi::print;
pub use ffi::write;
pub use ffi::Handler;
pub use ffi::Registration;

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
