// SPDX-License-Identifier: GPL-2.0

//! Part of the kprobes engine in the kernel image, present with or without the engine.
//!
//! - State that the rest of the kernel reads: the running probe (`raw/current_kprobe.rs`), and the
//!   blacklist (`raw/blacklist.rs`), whose tables are mostly freed with the initialisation data.
//! - Code that outlives the engine: calls with a diverted return (`raw/rethook.rs`,
//!   `raw/instance_pool.rs`, `raw/kretprobe.rs`), which may return after the engine has been
//!   unloaded.
//!
//! `exports.rs` and `builtin.c` have the kernel's entry points. The whole crate is a layer below
//! the engine, and `raw`: its interface states the guarantees that the engine has to give.

mod exports;
pub mod raw;

/// Prefix of this crate's log messages.
const __LOG_PREFIX: &[u8] = b"kprobes\0";
