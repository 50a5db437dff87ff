// SPDX-License-Identifier: GPL-2.0

//! Probes in the running kernel: adding and removing them, and watching their hits.
//!
//! The kernel's side is the module `ferrotrace_kprobe_events`, or without it `kprobe_events` of tracefs; see
//! `Documentation/probes.rst`.

mod blacklist;
pub mod condition;
pub mod control;
pub mod error;
pub mod event;
pub mod keep;
pub mod kernel;
pub mod live;
pub mod model;
pub mod order;
pub mod print;
pub mod resolve;
pub mod screen;
pub mod spec;
pub mod stock;
pub mod summary;
pub mod sums;
pub mod symbols;
pub mod totals;
pub mod types;
pub mod watch;
