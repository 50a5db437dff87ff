// SPDX-License-Identifier: GPL-2.0

//! See the crate's documentation.

pub mod blacklist;
pub mod current_kprobe;
pub mod extable;
pub(crate) mod instance_pool;
pub mod kretprobe;
pub(crate) mod rethook;
#[cfg(CONFIG_KPROBES_BUILTIN_KUNIT_TEST)]
mod tests;
