// SPDX-License-Identifier: GPL-2.0

//! Registry entry of a hook.
//!
//! Contexts: process.
#![deny(unsafe_code)]

use ferro_sys::cpu::percpu::PerCpuCounter;
use ferro_sys::fs::debugfs::Dir;
use ferro_sys::hook::ModuleName;
use ferro_sys::hook::Publisher;
use kernel::prelude::*;
use kernel::sync::Arc;

/// Registry entry of a hook.
pub(crate) struct HookEntry {
    pub(crate) publisher: Publisher,
    pub(crate) owner: ModuleName,
    /// True if the hook was defined in Rust, with a type for its exits.
    pub(crate) typed: bool,
    /// Counter of dispatches of chains.
    pub(crate) dispatches: Arc<PerCpuCounter>,
    /// Number of dispatches to single exits that have been deregistered.
    pub(crate) past_hits: usize,
    pub(crate) dir: Option<Dir>,
}

impl HookEntry {
    pub(crate) fn name(&self) -> &CStr {
        self.publisher.hook_ref().name().unwrap_or(c"")
    }
}
