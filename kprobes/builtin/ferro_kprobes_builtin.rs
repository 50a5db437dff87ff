// SPDX-License-Identifier: GPL-2.0

//! The part of the kprobes engine that is in the kernel image whether or not the engine is there.
//!
//! - What the rest of the kernel reads: which probe is running (`raw/current_kprobe.rs`), and what must not be probed
//!   (`raw/blacklist.rs`), much of which is freed with the initialisation data.
//! - What is used when the engine has gone: calls whose return is diverted (`raw/rethook.rs`, `raw/instance_pool.rs`,
//!   `raw/kretprobe.rs`), which return then as well.
//!
//! `exports.rs` and `builtin.c` are where the kernel comes in. All of it is below the engine, and `raw`: what it offers names
//! what the engine has to guarantee.

mod exports;
pub mod raw;

/// Prefix of what this crate prints.
const __LOG_PREFIX: &[u8] = b"kprobes\0";
