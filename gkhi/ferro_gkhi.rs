// SPDX-License-Identifier: GPL-2.0

//! GKHI, the hook registry: hooks, and the exits that modules attach to them.
//!
//! - Interface for Rust: `exit.rs`, `cpu_prepare.rs` and `registered_hook.rs`; for C: `exports.rs`.
//! - Requests: `register.rs` and `hook_registration.rs` register exits and hooks. `transaction.rs`
//!   arms, disarms and deregisters exits. `unregister.rs` serves dropped owners and unloaded
//!   modules.
//! - Mechanism: `commit.rs` publishes a change at the hooks' sites, `quiesce.rs` waits for retired
//!   exits, `reaper.rs` drops the exits that were still running then (`retired.rs`).
//! - State: `registry.rs`, made of `hook_entry.rs` and `exit_entry.rs`, in the lists of
//!   `kvec_lists.rs`.
//! - debugfs `gkhi/`: `debugfs_nodes.rs` and `files.rs`. The kernel's own hook points: `points.c`.
//!
//! `ferro_core::hooks` has the rules of the bookkeeping, `ferro_sys::hook` the mechanism, and
//! `raw/` the `unsafe` code of this crate. See `Documentation/gkhi.rst`.

/// Prefix of log messages of this crate.
const __LOG_PREFIX: &[u8] = b"gkhi\0";

mod commit;
mod context;
mod cpu_prepare;
mod debugfs_nodes;
mod error;
mod exit;
mod exit_entry;
mod exports;
mod files;
mod handle;
mod hook_entry;
mod hook_registration;
mod kvec_lists;
mod name;
mod quiesce;
mod raw;
mod reaper;
mod register;
mod registered_hook;
mod registry;
mod retired;
#[cfg(CONFIG_GKHI_KUNIT_TEST)]
mod tests;
mod transaction;
mod unregister;

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
pub use ferro_sys::hook::typed::EnginePromise;
pub use ferro_sys::hook::typed::ExitOn;
pub use ferro_sys::hook::typed::Hook;
pub use ferro_sys::hook::typed::NoReturn;
pub use ferro_sys::hook::typed::Open;
pub use ferro_sys::hook::typed::Outcome;
pub use ferro_sys::hook::typed::Param;
pub use ferro_sys::hook::typed::Spec;
pub use ferro_sys::hook::typed::WithCpusStopped;
pub use ferro_sys::hook::typed::WithIrqsOff;
pub use registered_hook::RegisteredHook;
