// SPDX-License-Identifier: GPL-2.0

//! Ferrotrace's safe layer over the kernel.
//!
//! The one place, beside `exports.rs` and `raw/` of each engine, that contains `unsafe`. Each file covers one
//! topic of the kernel and states its invariants once; what it offers to the engines is safe, or
//! names an obligation that the caller can keep.

#[cfg(CONFIG_KPROBES_ENGINE_RUST)]
pub mod address_map;
#[cfg(CONFIG_KPROBES_ENGINE_RUST)]
mod arithmetic;
#[cfg(CONFIG_KPROBES_ENGINE_RUST)]
pub mod blacklist;
pub mod code;
pub mod cpu;
#[cfg(CONFIG_KPROBES_ENGINE_RUST)]
pub mod die_notifier;
pub mod fs;
pub mod hook;
#[cfg(CONFIG_KPROBES_ENGINE_RUST)]
pub mod kprobe;
#[cfg(CONFIG_KPROBES_ENGINE_RUST)]
pub mod kretprobe;
mod layout;
pub mod mm;
#[cfg(CONFIG_KPROBES_ENGINE_RUST)]
pub mod regs;
#[cfg(CONFIG_KPROBES_ENGINE_RUST)]
mod rethook;
#[cfg(CONFIG_KPROBES_ENGINE_RUST)]
pub mod running_probe;
pub mod sync;
#[cfg(CONFIG_FERRO_SYS_KUNIT_TEST)]
mod tests;
pub mod trace;

/// Prefix of what this crate prints.
const __LOG_PREFIX: &[u8] = b"ferro_sys\0";
