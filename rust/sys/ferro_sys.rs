// SPDX-License-Identifier: GPL-2.0

//! Ferrotrace's safe layer over the kernel.
//!
//! The one place, beside the `ffi.rs` of each engine, that contains `unsafe`. Each file covers one
//! topic of the kernel and states its invariants once; what it offers to the engines is safe, or
//! names an obligation that the caller can keep.

pub mod counted;
pub mod cpu;
pub mod debugfs;
pub mod dentry;
pub mod fops;
pub mod hook;
pub mod irq_work;
mod layout;
pub mod mutex;
pub mod pages;
pub mod percpu;
pub mod preempt;
pub mod raw_lock;
pub mod rcu_slot;
pub mod ring;
pub mod splice;
pub mod time;
pub mod tracepoint;
pub mod wait;
pub mod word;

/// Prefix of what this crate prints.
const __LOG_PREFIX: &[u8] = b"ferro_sys\0";
