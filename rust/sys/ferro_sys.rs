// SPDX-License-Identifier: GPL-2.0

//! Ferrotrace's safe layer over the kernel.
//!
//! Only this crate, `exports.rs` and `raw/` of each engine contain `unsafe`. Each file covers one
//! topic of the kernel and states its invariants once. Its interface is safe, or names an
//! obligation that the caller can keep.

pub mod code;
pub mod cpu;
pub mod fs;
pub mod hook;
mod layout;
pub mod mm;
pub mod sync;
#[cfg(CONFIG_FERRO_SYS_KUNIT_TEST)]
mod tests;
pub mod trace;

pub use kernel::bindings;

/// Prefix of log messages of this crate.
const __LOG_PREFIX: &[u8] = b"ferro_sys\0";
