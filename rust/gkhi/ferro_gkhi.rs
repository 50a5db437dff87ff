// SPDX-License-Identifier: GPL-2.0

//! GKHI, the hook registry: hooks, and the exits that modules attach to them.
//!
//! `registry.rs` has the operations, `effect.rs` brings a change to the hooks' places, `files.rs` is debugfs
//! `gkhi/`; `exit.rs` and `identified.rs` are the interface for Rust, `points.c` the kernel's own hook points,
//! `ffi.rs` the interface for C. The bookkeeping is in `ferro_core::hooks`, the mechanics in
//! `ferro_sys::hook`. See `Documentation/gkhi.rst`.

/// Prefix of what this crate prints.
const __LOG_PREFIX: &[u8] = b"gkhi\0";

mod effect;
mod error;
mod exit;
mod ffi;
mod files;
mod identified;
mod lists;
mod registry;
#[cfg(CONFIG_GKHI_KUNIT_TEST)]
mod tests;

pub use error::Error;
pub use exit::arm;
pub use exit::disarm;
pub use exit::AnyExit;
pub use exit::Builder;
pub use exit::Registered;
pub use ferro_core::hooks::Priority;
pub use ferro_sys::declare_hook;
pub use ferro_sys::define_hook;
pub use ferro_sys::hook;
pub use ferro_sys::hook::points;
pub use ferro_sys::hook::typed::Answer;
pub use ferro_sys::hook::typed::AsIs;
pub use ferro_sys::hook::typed::Call;
pub use ferro_sys::hook::typed::CpusStopped;
pub use ferro_sys::hook::typed::ExitOn;
pub use ferro_sys::hook::typed::Hook;
pub use ferro_sys::hook::typed::NoReturn;
pub use ferro_sys::hook::typed::Open;
pub use ferro_sys::hook::typed::Outcome;
pub use ferro_sys::hook::typed::Param;
pub use ferro_sys::hook::typed::Spec;
pub use ferro_sys::hook::typed::WithCpusStopped;
pub use ferro_sys::hook::typed::WithIrqsOff;
pub use identified::Identified;
