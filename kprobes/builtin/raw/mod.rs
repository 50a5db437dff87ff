// SPDX-License-Identifier: GPL-2.0

//! See the crate's documentation.

pub mod blacklist;
pub mod fixup;
pub mod kretprobe;
pub(crate) mod pool;
pub(crate) mod rethook;
pub mod running;
#[cfg(CONFIG_KPROBES_BUILTIN_KUNIT_TEST)]
mod tests;
