// SPDX-License-Identifier: GPL-2.0

//! GKHI, the hook registry: hooks, and the exits that modules attach to them.
//!
//! - Interface: `exit.rs` and `hook_registration.rs` for Rust, `exports.rs` for C.
//! - Requests: `register.rs` registers exits. `transaction.rs` arms, disarms and deregisters exits,
//!   and deletes hooks. `unregister.rs` serves dropped owners and unloaded modules.
//! - Mechanism: `commit.rs` publishes a change at the hooks' sites, `quiesce.rs` waits for retired
//!   exits, `reaper.rs` drops the exits that were still running then.
//! - State: `registry.rs`, made of `entries.rs` in the lists of `kvec_lists.rs`.
//! - debugfs `gkhi/`: `debugfs_nodes.rs` and `debugfs.rs`. The kernel's own hook points:
//!   `points.c`.
//!
//! `ferro_gkhi_core` has the rules of the bookkeeping, `ferro_sys::hook` the mechanism, and
//! `raw/` the `unsafe` code of this crate. See `Documentation/gkhi.rst`.

/// Prefix of log messages of this crate.
const __LOG_PREFIX: &[u8] = b"gkhi\0";

mod commit;
mod debugfs;
mod debugfs_nodes;
mod entries;
mod error;
mod exit;
mod exports;
mod hook_registration;
mod kvec_lists;
mod quiesce;
mod raw;
mod reaper;
mod register;
mod registry;
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
pub use ferro_gkhi_core::Priority;
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
pub use hook_registration::RegisteredHook;
