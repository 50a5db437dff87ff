// SPDX-License-Identifier: GPL-2.0

//! Ferrotrace's safe layer over the kernel.
//!
//! The one place, beside the `ffi.rs` of each engine, that contains `unsafe`. Each file covers one
//! topic of the kernel and states its invariants once; what it offers to the engines is safe, or
//! names an obligation that the caller can keep.

#[cfg(CONFIG_KPROBES_ENGINE_RUST)]
pub mod address_map;
#[cfg(CONFIG_KPROBES_ENGINE_RUST)]
mod arithmetic;
#[cfg(CONFIG_KPROBES_ENGINE_RUST)]
pub mod blacklist;
pub mod counted;
pub mod cpu;
pub mod debugfs;
pub mod deferred;
pub mod dentry;
#[cfg(CONFIG_KPROBES_ENGINE_RUST)]
pub mod die_notifier;
#[cfg(CONFIG_KPROBES_ENGINE_RUST)]
pub mod exec_pool;
pub mod fops;
#[cfg(CONFIG_KPROBES_ENGINE_RUST)]
pub mod ftrace_ops;
pub mod hook;
pub mod irq_work;
#[cfg(CONFIG_KPROBES_ENGINE_RUST)]
pub mod kprobe;
#[cfg(CONFIG_KPROBES_ENGINE_RUST)]
pub mod kretprobe;
mod layout;
pub mod lines;
pub mod mutex;
pub mod owner_lock;
pub mod pages;
pub mod percpu;
pub mod preempt;
pub mod rcu_slot;
#[cfg(CONFIG_KPROBES_ENGINE_RUST)]
pub mod rcu_tasks;
#[cfg(CONFIG_KPROBES_ENGINE_RUST)]
pub mod regs;
#[cfg(CONFIG_KPROBES_ENGINE_RUST)]
mod rethook;
pub mod ring;
#[cfg(CONFIG_KPROBES_ENGINE_RUST)]
pub mod running_probe;
pub mod splice;
#[cfg(CONFIG_KPROBES_ENGINE_RUST)]
pub mod symbols;
pub mod task;
#[cfg(CONFIG_FERRO_SYS_KUNIT_TEST)]
mod tests;
#[cfg(CONFIG_KPROBES_ENGINE_RUST)]
pub mod text;
pub mod time;
pub mod tracepoint;
pub mod wait;
pub mod word;

/// Prefix of what this crate prints.
const __LOG_PREFIX: &[u8] = b"ferro_sys\0";
